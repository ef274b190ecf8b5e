/* The log viewer. Bytes come from the API, page by page; the socket says when there are more. What a program printed is
   only ever set as textContent, with class names of ours: whatever it prints stays text. Carriage returns, cursor moves
   and colours work as in a terminal; the number of lines kept is bounded. */
(() => {
  "use strict";
  const MOST_LINES = 3000;
  const LONGEST_LINE = 16_384; // characters that are shown
  const MOST_AT_ONCE = 1_048_576; // bytes: beyond this only the end is fetched
  const TAIL = 262_144;
  const RENDER_MS = 100;
  const POLL_MS = 5000;
  const LONGEST_ESCAPE = 65_536;

  const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
  const CSI = /\x1b\[([0-9;:?<=>!]*)[ -/]*([@-~])/y;
  const OTHER = /\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-OQ-WYZ\\`-~])/y;
  const UNFINISHED = /^\x1b(?:\[[0-9;:?<=>!]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)$/;

  const BASIC = [[0, 0, 0], [205, 49, 49], [13, 188, 121], [229, 229, 16], [36, 114, 200], [188, 63, 188], [17, 168, 205],
    [229, 229, 229], [102, 102, 102], [241, 76, 76], [35, 209, 139], [245, 245, 67], [59, 142, 234], [214, 112, 214],
    [41, 184, 219], [255, 255, 255]];

  function nearest(red, green, blue) {
    let best = 0;
    let least = Infinity;
    BASIC.forEach(([r, g, b], index) => {
      const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
      if (distance < least) { least = distance; best = index; }
    });
    return best;
  }

  function ofPalette(number) {
    if (number < 16) return number;
    if (number >= 232) { const grey = 8 + (number - 232) * 10; return nearest(grey, grey, grey); }
    const step = [0, 95, 135, 175, 215, 255];
    const cube = number - 16;
    return nearest(step[Math.floor(cube / 36) % 6], step[Math.floor(cube / 6) % 6], step[cube % 6]);
  }

  /* Colours and weights as class names. */
  class Style {
    constructor() { this.reset(); }
    reset() { this.fg = -1; this.bg = -1; this.flags = new Set(); this.update(); }
    update() {
      const names = [...this.flags].map((flag) => `log-${flag}`);
      if (this.fg >= 0) names.push(`log-fg${this.fg}`);
      if (this.bg >= 0) names.push(`log-bg${this.bg}`);
      this.name = names.join(" ");
    }
    apply(parameters) {
      const codes = parameters === "" ? [0] : parameters.split(/[;:]/).map(Number);
      const on = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
      const off = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
      for (let index = 0; index < codes.length; index += 1) {
        const code = codes[index];
        if (code === 0) this.reset();
        else if (on[code]) this.flags.add(on[code]);
        else if (off[code]) off[code].forEach((flag) => this.flags.delete(flag));
        else if (code >= 30 && code <= 37) this.fg = code - 30;
        else if (code >= 90 && code <= 97) this.fg = code - 82;
        else if (code >= 40 && code <= 47) this.bg = code - 40;
        else if (code >= 100 && code <= 107) this.bg = code - 92;
        else if (code === 39) this.fg = -1;
        else if (code === 49) this.bg = -1;
        else if (code === 38 || code === 48) {
          const key = code === 38 ? "fg" : "bg";
          if (codes[index + 1] === 5) { this[key] = ofPalette(codes[index + 2] & 255); index += 2; }
          else if (codes[index + 1] === 2) {
            this[key] = nearest(codes[index + 2], codes[index + 3], codes[index + 4]);
            index += 4;
          }
        }
      }
      this.update();
    }
  }

  class Line {
    constructor() { this.runs = []; this.length = 0; this.isCut = false; this.node = null; }
    /* Put text at a column, over what is there. */
    put(column, text, style) {
      if (column >= LONGEST_LINE) { this.isCut = true; return; }
      let piece = text;
      if (column + piece.length > LONGEST_LINE) { piece = piece.slice(0, LONGEST_LINE - column); this.isCut = true; }
      if (column > this.length) this.append(" ".repeat(column - this.length), "");
      if (column === this.length) { this.append(piece, style); return; }
      const end = column + piece.length;
      const before = this.cut(0, column);
      const after = this.cut(end, this.length);
      this.runs = before;
      this.length = column;
      this.append(piece, style);
      this.runs.push(...after);
      this.length += after.reduce((sum, run) => sum + run.text.length, 0);
    }
    append(text, style) {
      const last = this.runs[this.runs.length - 1];
      if (last && last.style === style) last.text += text;
      else this.runs.push({ text, style });
      this.length += text.length;
    }
    cut(from, to) {
      const kept = [];
      let position = 0;
      for (const run of this.runs) {
        const start = Math.max(from, position);
        const stop = Math.min(to, position + run.text.length);
        if (start < stop) kept.push({ text: run.text.slice(start - position, stop - position), style: run.style });
        position += run.text.length;
      }
      return kept;
    }
    keep(from, to) {
      this.runs = this.cut(from, to);
      this.length = this.runs.reduce((sum, run) => sum + run.text.length, 0);
    }
  }

  /* What a terminal would show, without an end to the top. */
  class Screen {
    constructor(box, longer) {
      this.box = box;
      this.longer = longer;
      this.clear();
    }
    clear() {
      this.lines = [new Line()];
      this.row = 0;
      this.column = 0;
      this.style = new Style();
      this.rest = "";
      this.dirty = new Set();
      this.hasLost = false;
      this.box.replaceChildren();
    }
    get isEmpty() { return this.lines.length === 1 && this.lines[0].length === 0; }

    write(fresh) {
      const text = this.rest + fresh;
      this.rest = "";
      let position = 0;
      CONTROL.lastIndex = 0;
      while (position < text.length) {
        CONTROL.lastIndex = position;
        const found = CONTROL.exec(text);
        const stop = found ? found.index : text.length;
        if (stop > position) this.put(text.slice(position, stop), this.style.name);
        if (!found) return;
        if (found[0] === "\x1b") {
          const after = this.escape(text, stop);
          if (after < 0) { this.rest = text.slice(stop); return; }
          position = after;
        } else {
          this.control(found[0]);
          position = stop + 1;
        }
      }
    }

    put(text, style) {
      const line = this.lines[this.row];
      line.put(this.column, text, style);
      this.column += text.length;
      this.dirty.add(line);
    }

    control(character) {
      const code = character.charCodeAt(0);
      if (code === 10) this.newLine();
      else if (code === 13) this.column = 0;
      else if (code === 8) this.column = Math.max(0, this.column - 1);
      else if (code === 9) this.put(" ".repeat(8 - (this.column % 8)), this.style.name);
      else if (code === 7) return;
      else if (code < 32) this.put(String.fromCharCode(0x2400 + code), "log-control");
      else if (code === 127) this.put("\u2421", "log-control");
      else if (code === 0x2028 || code === 0x2029) this.newLine();
      else this.put(`\\u${code.toString(16).padStart(4, "0")}`, "log-control"); // C1, and marks that turn text around
    }

    newLine() {
      this.column = 0;
      this.row += 1;
      if (this.row === this.lines.length) this.lines.push(new Line());
      if (this.lines.length > MOST_LINES + 200) this.trim();
    }

    trim() {
      const count = this.lines.length - MOST_LINES;
      for (const line of this.lines.splice(0, count)) {
        line.node?.remove();
        this.dirty.delete(line);
      }
      this.row = Math.max(0, this.row - count);
      this.hasLost = true;
    }

    /* Where to go on; -1: the sequence is not all here yet. */
    escape(text, start) {
      CSI.lastIndex = start;
      const csi = CSI.exec(text);
      if (csi) { this.command(csi[1], csi[2]); return start + csi[0].length; }
      OTHER.lastIndex = start;
      const other = OTHER.exec(text);
      if (other) return start + other[0].length;
      const rest = text.length - start <= LONGEST_ESCAPE ? text.slice(start) : "";
      if (rest && UNFINISHED.test(rest)) return -1;
      this.put("\u241b", "log-control");
      return start + 1;
    }

    command(parameters, letter) {
      if (letter === "m") { if (/^[0-9;:]*$/.test(parameters)) this.style.apply(parameters); return; }
      const number = Math.min(Number.parseInt(parameters, 10) || 0, LONGEST_LINE);
      const count = Math.max(1, number);
      const line = this.lines[this.row];
      if (letter === "A") this.row = Math.max(0, this.row - count);
      else if (letter === "B") this.row = Math.min(this.lines.length - 1, this.row + count);
      else if (letter === "C") this.column = Math.min(LONGEST_LINE, this.column + count);
      else if (letter === "D") this.column = Math.max(0, this.column - count);
      else if (letter === "E") { this.row = Math.min(this.lines.length - 1, this.row + count); this.column = 0; }
      else if (letter === "F") { this.row = Math.max(0, this.row - count); this.column = 0; }
      else if (letter === "G") this.column = count - 1;
      else if (letter === "K") {
        if (number === 0) line.keep(0, this.column);
        else if (number === 1) line.put(0, " ".repeat(Math.min(this.column, line.length)), "");
        else line.keep(0, 0);
        this.dirty.add(line);
      } else if (letter === "J" && number === 0) {
        line.keep(0, this.column);
        this.dirty.add(line);
        for (const below of this.lines.splice(this.row + 1)) { below.node?.remove(); this.dirty.delete(below); }
      }
    }

    render() {
      if (this.lines.length > MOST_LINES) this.trim();
      for (const line of this.dirty) {
        const parts = line.runs.map((run) => {
          const span = document.createElement("span");
          if (run.style) span.className = run.style;
          span.textContent = run.text;
          return span;
        });
        if (line.isCut) {
          const note = document.createElement("span");
          note.className = "log-cut";
          note.textContent = this.longer;
          parts.push(note);
        }
        line.node ||= document.createElement("div");
        line.node.replaceChildren(...parts);
      }
      this.dirty.clear();
      let before = null;
      for (let index = this.lines.length - 1; index >= 0; index -= 1) { // from the end up to the first that stands
        const line = this.lines[index];
        if (line.node?.parentNode) break;
        line.node ||= document.createElement("div");
        this.box.insertBefore(line.node, before);
        before = line.node;
      }
    }
  }

  class Viewer {
    constructor(card) {
      this.card = card;
      this.box = card.querySelector("[data-log-lines]");
      this.note = card.querySelector("[data-log-note]");
      this.follow = card.querySelector("[data-log-follow]");
      this.screen = new Screen(this.box, card.dataset.longer);
      this.isFixed = /[?&]attempt=/.test(card.dataset.url);
      this.attempt = this.presentAttempt();
      this.reset();
      this.listen();
      this.load();
    }

    presentAttempt() { return document.querySelector("[data-attempt]")?.dataset.attempt ?? ""; }

    reset() {
      this.screen.clear();
      this.decoder = new TextDecoder("utf-8");
      this.offset = 0;
      this.skips = false;
      this.isComplete = false;
      this.isBusy = false;
      this.again = false;
      this.version = (this.version ?? 0) + 1;
      this.say(this.card.dataset.waiting);
    }

    listen() {
      document.body.addEventListener(`live:${this.card.dataset.topic}`, () => this.load());
      document.body.addEventListener("htmx:afterSettle", () => {
        const attempt = this.presentAttempt();
        if (!this.isFixed && attempt !== this.attempt) { this.attempt = attempt; this.reset(); }
        this.load();
      });
      document.addEventListener("visibilitychange", () => { if (!document.hidden) this.load(); });
      setInterval(() => { if (!document.hidden) this.load(); }, POLL_MS);
      this.box.addEventListener("scroll", () => {
        this.follow.checked = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24;
      }, { passive: true });
      this.follow.addEventListener("change", () => this.scroll());
    }

    say(text) {
      this.note.textContent = text;
      this.note.hidden = !text;
    }

    async load() {
      if (this.isComplete || document.hidden) return;
      if (this.isBusy) { this.again = true; return; }
      this.isBusy = true;
      const version = this.version;
      try {
        await this.fetchMore(version);
      } catch {
        if (version === this.version) this.say(this.card.dataset.away);
      }
      if (version !== this.version) return;
      this.isBusy = false;
      if (this.again) { this.again = false; this.load(); }
    }

    async fetchMore(version) {
      const stop = new AbortController();
      const response = await fetch(`${this.card.dataset.url}&offset=${this.offset}`, { signal: stop.signal });
      if (response.status === 404) { this.say(this.card.dataset.waiting); return; }
      if (!response.ok) { this.say(this.card.dataset.away); return; }
      const next = Number(response.headers.get("X-Log-Next-Offset"));
      if (next - this.offset > MOST_AT_ONCE) {
        stop.abort();
        this.screen.clear();
        this.decoder = new TextDecoder("utf-8");
        this.offset = next - TAIL;
        this.skips = true;
        this.screen.hasLost = true;
        this.again = true;
        return;
      }
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (version !== this.version) { stop.abort(); return; }
        if (done) break;
        this.offset += value.length;
        this.take(this.decoder.decode(value, { stream: true }));
      }
      if (response.headers.get("X-Log-Complete") === "true") {
        this.isComplete = true;
        this.take(this.decoder.decode());
      }
      this.tellState();
    }

    take(text) {
      let fresh = text;
      if (this.skips) { // the tail begins in the middle of a line
        const end = fresh.search(/[\r\n]/);
        if (end >= 0 && end < 4096) fresh = fresh.slice(end + 1);
        this.skips = false;
      }
      this.screen.write(fresh);
      this.timer ||= setTimeout(() => { this.timer = 0; this.show(); }, RENDER_MS);
    }

    show() {
      this.screen.render();
      this.tellState();
      if (this.follow.checked) this.scroll();
    }

    tellState() {
      if (this.screen.isEmpty) this.say(this.card.dataset.waiting);
      else this.say(this.screen.hasLost ? this.card.dataset.earlier : "");
    }

    scroll() { if (this.follow.checked) this.box.scrollTop = this.box.scrollHeight; }
  }

  for (const card of document.querySelectorAll("[data-log]")) new Viewer(card);
})();
