/* One socket a page. The page names its topics in <body data-topics>; each "changed" message becomes the DOM event
   "live:<topic>" on body, and "live" for all of them; htmx elements listen and refetch themselves. After a reconnect everything is
   refetched; while the socket is away every 10 s. */
(() => {
  "use strict";
  const topics = (document.body.dataset.topics || "").split(/\s+/).filter(Boolean);
  if (!topics.length) return;
  const note = document.querySelector("[data-live-note]");
  const url = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws/live/`;
  const GATHER_MS = 150;
  const POLL_MS = 10_000;
  const LONGEST_WAIT_MS = 30_000;
  let socket = null;
  let tries = 0;
  let wasOpen = false;
  let polling = 0;
  let gathering = 0;
  let missed = false;

  /* "live:<topic>" at once; "live", for parts that show several topics, at most every GATHER_MS and never lost. A log
     that grows changes no other part. A page that nobody looks at catches up when it is seen again. */
  function tell(topic, detail) {
    if (document.hidden) { missed = true; return; }
    document.body.dispatchEvent(new CustomEvent(`live:${topic}`, { detail }));
    if (topic.startsWith("log.")) return;
    gathering ||= setTimeout(() => {
      gathering = 0;
      document.body.dispatchEvent(new CustomEvent("live"));
    }, GATHER_MS);
  }
  function tellAll() { for (const topic of topics) tell(topic, { refetch: true }); }
  function startPolling() {
    if (note) note.hidden = false;
    polling ||= setInterval(() => { tellAll(); }, POLL_MS);
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
        document.body.dataset.live = "yes";
        stopPolling();
        if (wasOpen) tellAll();
        wasOpen = true;
      } else if (message.topic) tell(message.topic, message);
    });
    socket.addEventListener("close", (event) => {
      socket = null;
      document.body.dataset.live = "no";
      if (event.code === 4401) { location.reload(); return; }
      wasOpen = true;
      tries += 1;
      if (tries > 1) startPolling();
      const wait = Math.min(LONGEST_WAIT_MS, 500 * 2 ** Math.min(tries, 6));
      setTimeout(connect, wait / 2 + Math.random() * wait / 2);
    });
  }
  connect();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || (!missed && socket)) return;
    missed = false;
    tellAll();
  });
})();
