/* One socket a page. The page names its topics in <body data-topics>; each "changed" message becomes the DOM event
   "live:<topic>" on body, which htmx elements listen to and refetch themselves. After a reconnect everything is
   refetched; while the socket is away every 10 s. */
(() => {
  "use strict";
  const topics = (document.body.dataset.topics || "").split(/\s+/).filter(Boolean);
  if (!topics.length) return;
  const note = document.querySelector("[data-live-note]");
  const url = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws/live/`;
  const POLL_MS = 10_000;
  const LONGEST_WAIT_MS = 30_000;
  let socket = null;
  let tries = 0;
  let wasOpen = false;
  let polling = 0;

  function tell(topic, detail) {
    document.body.dispatchEvent(new CustomEvent(`live:${topic}`, { detail }));
    document.body.dispatchEvent(new CustomEvent("live", { detail: { topic, ...detail } }));
  }
  function tellAll() { for (const topic of topics) tell(topic, { refetch: true }); }
  function startPolling() {
    if (note) note.hidden = false;
    polling ||= setInterval(() => { if (!document.hidden) tellAll(); }, POLL_MS);
  }
  function stopPolling() {
    if (note) note.hidden = true;
    clearInterval(polling);
    polling = 0;
  }

  function connect() {
    socket = new WebSocket(url);
    socket.addEventListener("open", () => {
      socket.send(JSON.stringify({ subscribe: topics }));
    });
    socket.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      if (message.subscribed) {
        tries = 0;
        stopPolling();
        if (wasOpen) tellAll();
        wasOpen = true;
      } else if (message.topic) tell(message.topic, message);
    });
    socket.addEventListener("close", (event) => {
      socket = null;
      if (event.code === 4401) { location.reload(); return; }
      wasOpen = true;
      tries += 1;
      if (tries > 1) startPolling();
      const wait = Math.min(LONGEST_WAIT_MS, 500 * 2 ** Math.min(tries, 6));
      setTimeout(connect, wait / 2 + Math.random() * wait / 2);
    });
  }
  connect();
  addEventListener("visibilitychange", () => { if (!document.hidden && !socket) tellAll(); });
})();
