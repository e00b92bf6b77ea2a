"use strict";
// What all pages share: details under the pointer, tables that sort, fields that search.
const Page = (() => {
  const byId = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const data = byId("data");
  const tip = byId("tip");

  function element(name, options = {}, ...children) {
    const { text, data: marks, style, ...others } = options;
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(marks || {})) made.dataset[key] = value;
    for (const [key, value] of Object.entries(style || {})) made.style.setProperty(key, value);
    for (const [key, value] of Object.entries(others)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function show(event, title, lines, code) {
    tip.replaceChildren(element("b", { text: title }));
    if (lines.length) tip.append(element("p", { text: lines.join("\n") }));
    if (code) tip.append(element("pre", { text: code }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 6);
    const below = event.clientY + 16;
    const y = below + box.height > innerHeight - 4 ? event.clientY - box.height - 12 : below;
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = Math.max(4, y) + "px";
  }
  const hide = () => { tip.hidden = true; };
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  function fit(canvas, height) {
    const ratio = Math.min(3, devicePixelRatio || 1);
    const width = canvas.clientWidth || canvas.parentElement.clientWidth;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    return [g, width];
  }

  // Bring a node of a drawing to the middle of its frame.
  function center(node) {
    const frame = node.closest(".drawing");
    const box = node.getBoundingClientRect(), room = frame.getBoundingClientRect();
    frame.scrollTop += box.top - room.top - room.height / 2 + box.height / 2;
    frame.scrollLeft += box.left - room.left - room.width / 2 + box.width / 2;
  }
  for (const first of document.querySelectorAll(".drawing g:first-of-type")) center(first);

  function clipped(g, text, room) {
    if (g.measureText(text).width <= room) return text;
    let length = text.length;
    while (length > 1 && g.measureText(text.slice(0, length) + "…").width > room) length--;
    return length > 2 ? text.slice(0, length) + "…" : "";
  }

  function sort(table, head) {
    const down = head.getAttribute("aria-sort") === "descending"
      || (!head.hasAttribute("aria-sort") && head.dataset.first === "ascending");
    for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    const column = head.cellIndex;
    const key = (row) => row.cells[column].dataset.value;
    const number = head.dataset.kind === "number";
    const order = (a, b) => number ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b));
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => down ? order(a, b) : order(b, a)));
  }
  for (const table of document.querySelectorAll("table.sorts")) {
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) sort(table, button.closest("th"));
    });
  }

  // Rows of a table that is wider than its frame take several lines each, and its head with them.
  const needs = new WeakMap();
  function stack() {
    const wide = [...document.querySelectorAll(".scroll > table")].map((table) => {
      const room = table.parentElement.clientWidth;
      if (!room) return [table, false];
      const stacked = table.classList.contains("stacked");
      if (!stacked) needs.set(table, table.offsetWidth);
      return [table, needs.get(table) > room];
    });
    for (const [table, on] of wide) table.classList.toggle("stacked", on);
  }
  addEventListener("resize", stack);
  document.addEventListener("toggle", stack, true);
  stack();

  for (const field of document.querySelectorAll("input[data-filter]")) {
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of byId(field.dataset.filter).tBodies[0].rows) {
        // Full names count, too, where short ones are shown.
        row.text ??= [...row.cells].map((c) => c.textContent + " " + (c.dataset.value || ""))
          .join(" ").toLowerCase();
        row.hidden = !words.every((word) => row.text.includes(word));
      }
    });
  }

  return {
    byId, css, element, show, hide, fit, clipped, center,
    data: data ? JSON.parse(data.textContent) : null,
    ready: () => { document.documentElement.dataset.ready = "yes"; },
  };
})();
