"use strict";
// The report of the compiler: an operator that is chosen is shown everywhere.
(() => {
  function choose(key, from) {
    const model = from.closest("[data-model]");
    for (const other of model.querySelectorAll(".on")) other.classList.remove("on");
    for (const part of model.querySelectorAll(`[data-op="${CSS.escape(key)}"]`)) {
      part.classList.add("on");
    }
    const node = model.querySelector(`.drawing g[data-op="${CSS.escape(key)}"]`);
    if (node) Page.center(node);
    for (const row of model.querySelectorAll("tr.on")) {
      const scroll = row.closest(".scroll");
      if (!scroll.contains(from)) scroll.scrollTop = row.offsetTop - scroll.clientHeight / 3;
    }
    const status = model.querySelector("[data-status]");
    const strip = model.querySelectorAll(".strip button.on");
    if (status && node) {
      const cycles = [...strip].map((button) => button.title);
      status.textContent = cycles[0] || node.querySelector("title").textContent.replaceAll("\n", " · ");
    }
  }
  document.addEventListener("click", (event) => {
    const part = event.target.closest("[data-op]");
    if (part && part.dataset.op) choose(part.dataset.op, part);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = event.target.closest("g[data-op]");
    if (node && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      choose(node.dataset.op, node);
    }
    const strip = event.target.closest(".strip");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!strip || !step) return;
    event.preventDefault();
    const pieces = [...strip.querySelectorAll("[data-op]")];
    const at = pieces.findIndex((piece) => piece.classList.contains("at"));
    const next = pieces[Math.max(0, Math.min(pieces.length - 1, at + step))];
    if (!next) return;
    for (const piece of pieces) piece.classList.toggle("at", piece === next);
    choose(next.dataset.op, next);
  });
})();
