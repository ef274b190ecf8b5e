/* What all pages need: menu, questions before an end, times, copying, rows that can be added. All of it is extra:
   without scripts the same forms and links work. */
(() => {
  "use strict";
  const language = document.documentElement.lang || "en";

  // --- menu on small screens ---
  const toggle = document.querySelector("[data-nav-toggle]");
  toggle?.addEventListener("click", () => {
    const open = document.querySelector("[data-nav]").classList.toggle("is-open");
    toggle.setAttribute("aria-expanded", String(open));
  });

  // --- a question before an end ---
  const dialog = document.querySelector("[data-ask-dialog]");
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.dataset.ask || !dialog?.showModal) return;
    event.preventDefault();
    dialog.querySelector("#ask-question").textContent = form.dataset.ask;
    dialog.querySelector("[data-ask-yes]").textContent = form.dataset.label || "OK";
    dialog.returnValue = "";
    dialog.onclose = () => {
      if (dialog.returnValue !== "yes") return;
      const answer = document.createElement("input");
      Object.assign(answer, { type: "hidden", name: "confirmed", value: "yes" });
      form.append(answer);
      if (!form.isConnected) { form.hidden = true; document.body.append(form); } // the page has refetched its part
      form.submit();
    };
    dialog.showModal();
  });

  // --- a form is sent once ---
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || !(form instanceof HTMLFormElement) || form.method !== "post" || form.target) return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    form.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      form.removeAttribute("aria-busy");
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("[data-submits]")) event.target.form.requestSubmit();
  });

  // --- times: in the reader's zone; counting ones move ---
  const full = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  const sameDay = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const otherDay = new Intl.DateTimeFormat(language, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const otherYear = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
  const hour = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const units = language.startsWith("zh") ? ["天", "小时", "分", "秒"] : ["d", "h", "min", "s"];

  function duration(seconds) {
    const sizes = [86400, 3600, 60, 1];
    const parts = [];
    let rest = Math.max(0, Math.floor(seconds));
    for (let index = 0; index < sizes.length; index += 1) {
      if (rest >= sizes[index]) {
        parts.push(`${Math.floor(rest / sizes[index])} ${units[index]}`);
        rest %= sizes[index];
      } else if (parts.length) break;
    }
    return parts.slice(0, 2).join(" ") || `0 ${units[3]}`;
  }

  function showTime(element, now) {
    const instant = new Date(element.dateTime);
    if (Number.isNaN(instant.getTime())) return;
    let text;
    if ("clock" in element.dataset) text = hour.format(instant);
    else if ("minute" in element.dataset && instant.toDateString() === now.toDateString()) text = hour.format(instant);
    else if ("counting" in element.dataset) text = duration((now - instant) / 1000);
    else if (instant.toDateString() === now.toDateString()) text = sameDay.format(instant);
    else if (instant.getFullYear() === now.getFullYear()) text = otherDay.format(instant);
    else text = otherYear.format(instant);
    if (element.textContent !== text) element.textContent = text;
    if (!element.title) element.title = full.format(instant);
  }

  function showTimes(root) {
    const now = new Date();
    for (const element of root.querySelectorAll("time[datetime]")) showTime(element, now);
  }
  showTimes(document);
  document.addEventListener("htmx:afterSettle", () => showTimes(document));
  setInterval(() => {
    const now = new Date();
    for (const element of document.querySelectorAll("time[data-counting]")) showTime(element, now);
  }, 1000);

  // --- copying ---
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    const source = document.querySelector(button.dataset.copy);
    if (!source) return;
    const text = "value" in source ? source.value : source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      if ("select" in source) source.select();
      document.execCommand("copy");
    }
    button.classList.add("is-copied");
    setTimeout(() => button.classList.remove("is-copied"), 1500);
  });

  // --- rows of a form that can be added: <template data-rows-template> next to [data-rows] ---
  document.addEventListener("click", (event) => {
    const add = event.target.closest?.("[data-rows-add]");
    if (add) {
      const box = document.querySelector(add.dataset.rowsAdd);
      const count = Number(box.dataset.count);
      const fresh = box.parentElement.querySelector("template").content.cloneNode(true);
      for (const element of fresh.querySelectorAll("[name], [id], [for]")) {
        for (const key of ["name", "id", "for"]) {
          if (element.hasAttribute(key)) element.setAttribute(key, element.getAttribute(key).replace("__n__", count));
        }
      }
      box.dataset.count = String(count + 1);
      box.append(fresh);
      box.lastElementChild?.querySelector("input, select, textarea")?.focus();
    }
    const remove = event.target.closest?.("[data-rows-remove]");
    if (remove) remove.closest("[data-row]").remove();
  });

  // --- whose clock a rule follows: at first the reader's own ---
  for (const input of document.querySelectorAll("input[data-own-zone]")) {
    if (!input.value) input.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
  }

  // --- parts of a form that belong to one choice: data-shown-if="field=value" ---
  function showParts(form) {
    for (const part of form.querySelectorAll("[data-shown-if]")) {
      const [name, wanted] = part.dataset.shownIf.split("=");
      const value = new FormData(form).get(name);
      part.hidden = !wanted.split("|").includes(value ?? "");
    }
  }
  for (const form of document.querySelectorAll("form")) {
    if (form.querySelector("[data-shown-if]")) {
      form.addEventListener("change", () => showParts(form));
      showParts(form);
    }
  }
})();
