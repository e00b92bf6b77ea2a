"use strict";
// The explorer: whatever is chosen is shown in graph, timeline, layers, instructions and memory.
(() => {
  const { data: D, byId, css, element, show, hide, fit, clipped, center } = Page;
  const ROW = 19, LANE = 16, GUTTER = 110;
  const whole = (n) => Math.round(n).toLocaleString("en-US");
  const bytes = (n) => n >= 1 << 20 ? (n / (1 << 20)).toFixed(2) + " MiB"
    : n >= 1 << 10 ? (n / (1 << 10)).toFixed(1) + " KiB" : whole(n) + " B";
  const percent = (part) => (100 * part).toFixed(1) + " %";
  const spaced = (name) => name.replaceAll("_", " ");
  const resource = (unit) => D.resources[unit] || "scalar";
  let part = null, number = 0, group = -1, instruction = -1;
  let view = [0, 1];

  // --- instructions: only those in sight are in the page -----------------------------------------

  const code = byId("code"), space = byId("code-space");
  let listed = [];
  const textOf = (i) => D.texts[part.instructions[i][1]];
  function find() {
    const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    listed = [];
    for (let i = 0; i < part.instructions.length; i++) {
      const text = words.length ? textOf(i).toLowerCase() : "";
      if (words.every((word) => text.includes(word))) listed.push(i);
    }
    // Rows that are still there would keep the list as long as it was.
    space.replaceChildren();
    space.style.height = listed.length * ROW + "px";
    code.scrollTop = 0;
    if (instruction >= 0) reveal(instruction);
    rows();
  }
  function rows() {
    const first = Math.max(0, Math.floor(code.scrollTop / ROW) - 8);
    const last = Math.min(listed.length, first + Math.ceil(code.clientHeight / ROW) + 16);
    const made = [];
    for (let at = first; at < last; at++) {
      const i = listed[at];
      const [chunk, bundle] = part.places[i];
      const row = element("div", {
        class: "row" + (part.group[i] === group ? " in" : "") + (i === instruction ? " on" : ""),
        role: "option", "aria-selected": String(i === instruction), data: { i },
        style: { top: at * ROW + "px" },
      }, element("span", { class: "place", text: `${chunk}:${bundle}` }),
      textOf(i).split("\n", 1)[0]);
      made.push(row);
    }
    space.replaceChildren(...made);
  }
  function reveal(i) {
    const at = listed.indexOf(i);
    if (at < 0) return;
    const y = at * ROW;
    if (y < code.scrollTop || y > code.scrollTop + code.clientHeight - ROW) {
      code.scrollTop = y - code.clientHeight / 3;
    }
  }
  let waiting = false;
  code.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; rows(); });
  });
  code.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) choose(part.group[row.dataset.i], Number(row.dataset.i));
  });
  code.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (!step || !listed.length) return;
    event.preventDefault();
    const at = listed.indexOf(instruction);
    const next = listed[Math.max(0, Math.min(listed.length - 1, at + step))];
    choose(part.group[next], next);
  });
  byId("find").addEventListener("input", find);

  // --- layers ------------------------------------------------------------------------------------

  const layers = byId("layers");
  function makeLayers() {
    const most = Math.max(1, ...part.groups.map((g) => g.cycles));
    layers.replaceChildren(...part.groups.map((g, i) => element("div", {
      class: "row", role: "option", title: g.full, data: { group: i },
      style: { "--c": `var(--${resource(g.bound)})`, "--part": 100 * g.cycles / most + "%" },
    }, element("span", { class: "label", text: g.name }),
    element("span", { class: "number", text: whole(g.cycles) }))));
  }
  layers.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) choose(Number(row.dataset.group), -1);
  });
  const step = (by) => choose(Math.max(0, Math.min(part.groups.length - 1, group + by)), -1);
  layers.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    step(by);
  });

  // --- what is chosen ----------------------------------------------------------------------------

  function pairs(rows) {
    return element("dl", { class: "pairs" }, ...rows.filter(Boolean).flatMap(([name, value]) => [
      element("dt", { text: name }), element("dd", { text: value }),
    ]));
  }
  const time = (cycles) => {
    const us = cycles / part.mhz;
    return us < 1e3 ? us.toFixed(1) + " µs" : (us / 1e3).toFixed(3) + " ms";
  };
  function aboutLayer(g) {
    const instructions = [];
    part.group.forEach((of, i) => { if (of === group) instructions.push(i); });
    const bundles = instructions.reduce((sum, i) => sum + D.kinds[part.instructions[i][0]].bundles, 0);
    const graph = g.key && document.querySelector(`.drawing g[data-op="${CSS.escape(g.key)}"] title`);
    return [
      element("h3", { text: g.name, title: g.full }),
      pairs([
        ["time", `${time(g.cycles)}, ${whole(g.cycles)} cycles, ${percent(g.cycles / part.cycles)}`],
        g.bound && ["bound by", D.legend[g.bound] || g.bound],
        g.macs && ["MACs", `${whole(g.macs)}, ${percent(g.use)} of the array`],
        ["instructions", `${whole(instructions.length)}, ${bytes(bundles * part.bundle)}`],
        g.ring && ["over the ring", bytes(g.ring)],
        g.streamed && ["parameters streamed", bytes(g.streamed)],
        g.input && ["from the host", bytes(g.input)],
        g.output && ["to the host", bytes(g.output)],
        ["narrow memory", `${bytes(g.narrow)} of ${bytes(part.memory.narrow.capacity)} on the fullest tile`],
        ["wide memory", `${bytes(g.wide)} of ${bytes(part.memory.wide.capacity)} on the fullest tile`],
      ]),
      ...(graph ? [element("p", { class: "hint lines", text: graph.textContent })] : []),
    ];
  }
  function aboutInstruction(i) {
    const [kind, text, values] = part.instructions[i];
    const k = D.kinds[kind];
    const [chunk, bundle] = part.places[i];
    const table = element("table", {}, element("thead", {}, element("tr", {},
      ...["field", "value", "bits", "means"].map((text) => element("th", { class: "left", scope: "col", text })))));
    const body = element("tbody");
    const given = new Map();
    for (let at = 0; at < values.length; at += 2) given.set(values[at], D.texts[values[at + 1]]);
    const line = (n, value) => {
      const [name, first, width, doc, unit, evidence] = k.fields[n];
      body.append(element("tr", {},
        element("td", { class: "left", text: spaced(name) }),
        element("td", { class: "left wrap value", text: value + (unit ? " " + unit : "") }),
        element("td", { class: "left", text: width > 1 ? `${first}–${first + width - 1}` : String(first) }),
        element("td", { class: "left wrap", title: evidence, text: doc })));
    };
    for (const [n, value] of given) line(n, value);
    table.append(body);
    const rest = k.fields.map((_, n) => n).filter((n) => !given.has(n));
    const more = element("details", {}, element("summary", { text: `${rest.length} fields with their defaults` }),
      element("p", { class: "hint lines", text: rest.map((n) => `${spaced(k.fields[n][0])}: ${k.fields[n][3]}`).join("\n") }));
    const spans = part.spans.filter((s) => s[1] === i);
    const others = part.elsewhere.filter((s) => s[1] === i);
    const times = [...spans, ...others].slice(0, 4).map(([unit, , begin, length, busy, tile]) =>
      [spaced(part.units[unit]), `cycle ${whole(begin)} + ${whole(length)}, ${time(length)}, busy ${whole(busy)}`
        + (tile ? `, in tile ${tile}` : "")]);
    return [
      element("h3", { text: `${k.name} @${chunk}:${bundle}` }),
      element("p", { class: "hint", text: `${k.doc} Executed by: ${k.unit}; ${k.bundles} bundles, ${k.bundles * part.bundle} bytes.` }),
      element("pre", { class: "asm", text: D.texts[text] }),
      ...(times.length ? [pairs(times)] : []),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Fields" }, table),
      ...(rest.length ? [more] : []),
    ];
  }

  function choose(newGroup, newInstruction, quiet) {
    group = newGroup;
    instruction = newInstruction;
    const g = part.groups[group];
    for (const row of layers.children) {
      const on = Number(row.dataset.group) === group;
      row.classList.toggle("on", on);
      row.setAttribute("aria-selected", String(on));
      if (on && (row.offsetTop < layers.scrollTop || row.offsetTop > layers.scrollTop + layers.clientHeight - 30)) {
        layers.scrollTop = row.offsetTop - layers.clientHeight / 3;
      }
    }
    for (const node of document.querySelectorAll(".drawing g.on")) node.classList.remove("on");
    if (g && g.key) {
      const node = document.querySelector(`.drawing g[data-op="${CSS.escape(g.key)}"]`);
      if (node) {
        node.classList.add("on");
        if (!quiet) center(node);
      }
    }
    const target = instruction >= 0 ? instruction : part.group.indexOf(group);
    if (target >= 0) reveal(target);
    rows();
    byId("detail").replaceChildren(...(instruction >= 0 ? aboutInstruction(instruction) : g ? aboutLayer(g) : []));
    byId("status").textContent = g
      ? `${g.name}: ${whole(g.cycles)} cycles, ${percent(g.cycles / part.cycles)}` : "";
    draw();
  }

  const graph = byId("graph");
  function fromGraph(node) {
    const key = node.dataset.op;
    for (const [at, other] of D.parts.entries()) {
      const found = other.groups.findIndex((g) => g.key === key && g.cycles > 0);
      const any = found >= 0 ? found : other.groups.findIndex((g) => g.key === key);
      if (any < 0) continue;
      if (at !== number) open(at);
      choose(any, -1, true);
      return;
    }
    group = instruction = -1;
    for (const other of document.querySelectorAll(".on")) other.classList.remove("on");
    node.classList.add("on");
    byId("detail").replaceChildren(element("p", { class: "lines", text: node.querySelector("title").textContent }));
    rows();
    draw();
  }
  graph.addEventListener("click", (event) => {
    const node = event.target.closest("g[data-op]");
    if (node) fromGraph(node);
  });
  graph.addEventListener("keydown", (event) => {
    const node = event.target.closest("g[data-op]");
    if (!node || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    fromGraph(node);
  });

  // --- timeline ----------------------------------------------------------------------------------

  const canvas = byId("time");
  let lanes = [];
  function makeLanes() {
    const all = new Map();
    for (const span of part.spans) {
      const unit = part.units[span[0]];
      if (!all.has(unit)) all.set(unit, []);
      all.get(unit).push(span);
    }
    lanes = part.lanes.filter((unit) => all.has(unit)).map((unit) => ({ unit, spans: all.get(unit) }));
  }
  const top = (lane) => 24 + 24 + lane * LANE;
  const scale = (width) => {
    const k = (width - GUTTER - 6) / (view[1] - view[0]);
    return (cycle) => GUTTER + (cycle - view[0]) * k;
  };
  function draw() {
    const bottom = top(lanes.length) + 6;
    const [g, width] = fit(canvas, bottom + 2 * 34 + 4);
    const x = scale(width), right = width - 6;
    const ink = css("--ink"), soft = css("--soft"), card = css("--card"), focus = css("--focus");
    const colors = Object.fromEntries(Object.keys(D.legend).map((name) => [name, css("--" + name)]));
    const inside = (begin, end) => [Math.max(GUTTER, x(begin)), Math.min(right, x(end))];
    g.font = "11px system-ui, sans-serif";
    g.lineWidth = 1;
    const chosen = part.groups[group];
    if (chosen) {
      const [a, b] = inside(chosen.begin, chosen.end);
      g.fillStyle = css("--hover");
      if (b >= a) g.fillRect(a, 20, Math.max(1, b - a), bottom + 60);
    }
    const want = (view[1] - view[0]) / part.mhz / Math.max(2, (width - GUTTER) / 120);
    const base = 10 ** Math.floor(Math.log10(want));
    const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= want);
    const [unit, name] = view[1] / part.mhz >= 1e3 && step >= 1 ? [1e3, " ms"] : [1, " µs"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    const tick = step * part.mhz;
    g.fillStyle = soft;
    for (let t = Math.ceil(view[0] / tick) * tick; t <= view[1]; t += tick) {
      const label = (t / part.mhz / unit).toFixed(digits) + name;
      g.textAlign = "center";
      if (x(t) + 30 < width) g.fillText(label, Math.max(GUTTER + 10, x(t)), 12);
    }
    g.textAlign = "left";
    g.fillText("layers", 6, 38);
    part.groups.forEach((item, i) => {
      const [a, b] = inside(item.begin, item.end);
      if (b < a || item.end < view[0] || item.begin > view[1] || !item.cycles) return;
      g.globalAlpha = i === group ? 0.9 : 0.35;
      g.fillStyle = colors[resource(item.bound)] || colors[item.bound] || soft;
      g.fillRect(a, 26, Math.max(1, b - a - 0.7), 18);
      g.globalAlpha = 1;
      g.fillStyle = i === group ? card : ink;
      if (b - a > 34) g.fillText(clipped(g, item.name, b - a - 8), a + 4, 39);
    });
    lanes.forEach((lane, at) => {
      const y = top(at);
      g.fillStyle = soft;
      g.fillText(clipped(g, spaced(lane.unit), GUTTER - 12), 6, y + 11);
      const color = colors[resource(lane.unit)];
      let last = -1;
      for (const [, i, begin, length] of lane.spans) {
        if (begin > view[1] || begin + length < view[0]) continue;
        const [a, b] = inside(begin, begin + length);
        const on = i === instruction && i >= 0;
        if (b - a < 1 && Math.floor(a) === last && !on) continue;
        last = Math.floor(a);
        g.fillStyle = color;
        g.globalAlpha = on || part.group[i] === group ? 1 : 0.5;
        g.fillRect(a, y + 2, Math.max(1, b - a - 0.5), LANE - 4);
        g.globalAlpha = 1;
        if (on) {
          g.strokeStyle = focus;
          g.lineWidth = 2;
          g.strokeRect(a - 1, y + 1, Math.max(3, b - a + 1), LANE - 2);
          g.lineWidth = 1;
        }
      }
    });
    // An instruction of other tiles only is framed where these execute it.
    for (const [unit, i, begin, length] of part.elsewhere) {
      if (i !== instruction || i < 0 || begin > view[1] || begin + length < view[0]) continue;
      const at = lanes.findIndex((lane) => lane.unit === part.units[unit]);
      if (at < 0) continue;
      const [a, b] = inside(begin, begin + length);
      g.strokeStyle = focus;
      g.setLineDash([3, 2]);
      g.strokeRect(a - 0.5, top(at) + 1.5, Math.max(3, b - a), LANE - 3);
      g.setLineDash([]);
    }
    ["narrow", "wide"].forEach((name, at) => {
      const use = part.memory[name], y = bottom + at * 34, tall = 26;
      g.fillStyle = soft;
      g.fillText(name + " memory", 6, y + 12);
      g.fillText("of " + bytes(use.capacity), 6, y + 24);
      g.strokeStyle = css("--line");
      g.strokeRect(GUTTER + 0.5, y + 0.5, right - GUTTER, tall);
      part.phases.forEach(([begin, end, , owner], phase) => {
        const [a, b] = inside(begin, end);
        if (b <= a) return;
        const h = tall * use.live[phase] / use.capacity;
        g.fillStyle = owner === group ? colors.op : colors.fence;
        g.fillRect(a, y + tall - h, Math.max(0.5, b - a), h);
      });
    });
  }
  function hit(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    if (px < GUTTER) return null;
    const t = view[0] + (px - GUTTER) / (canvas.clientWidth - GUTTER - 6) * (view[1] - view[0]);
    const near = 2 * (view[1] - view[0]) / canvas.clientWidth;
    if (py >= 24 && py < 46) {
      const at = part.groups.findIndex((g) => g.cycles && g.begin <= t && t < g.end);
      return at < 0 ? null : { group: at, instruction: -1 };
    }
    const lane = lanes[Math.floor((py - top(0)) / LANE)];
    if (lane && py >= top(0)) {
      let best = null, far = near;
      for (const span of lane.spans) {
        const off = t < span[2] ? span[2] - t : Math.max(0, t - span[2] - span[3]);
        if (span[1] >= 0 && off <= far) { far = off; best = span; }
      }
      return best && { group: part.group[best[1]], instruction: best[1], span: best };
    }
    const phase = part.phases.findIndex(([begin, end]) => begin <= t && t < end);
    return phase < 0 || py < top(0) ? null : { group: part.phases[phase][3], instruction: -1, phase };
  }
  function setView(a, b) {
    const least = 4, most = Math.max(part.cycles, 1);
    const size = Math.min(most, Math.max(least, b - a));
    const from = Math.max(0, Math.min(most - size, (a + b) / 2 - size / 2));
    view = [from, from + size];
    requestAnimationFrame(draw);
  }
  const zoom = (factor, at = (view[0] + view[1]) / 2) =>
    setView(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, view: [...view], moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const by = (drag.x - event.clientX) / (canvas.clientWidth - GUTTER) * (view[1] - view[0]);
      drag.moved ||= Math.abs(drag.x - event.clientX) > 3;
      if (drag.moved) setView(drag.view[0] + by, drag.view[1] + by);
      return;
    }
    const found = hit(event);
    if (!found) { hide(); return; }
    const g = part.groups[found.group];
    if (found.span) {
      const [, i, begin, length, busy] = found.span;
      show(event, textOf(i).split("\n", 1)[0], [`${g ? g.name : ""}`, `cycle ${whole(begin)} + ${whole(length)}, busy ${whole(busy)}`], textOf(i));
    } else if (found.phase !== undefined) {
      const used = ["narrow", "wide"].map((name) => `${name}: ${bytes(part.memory[name].live[found.phase])}`);
      show(event, part.phases[found.phase][2], used);
    } else if (g) {
      show(event, g.name, [`${whole(g.cycles)} cycles, ${percent(g.cycles / part.cycles)}`]);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = drag && drag.moved;
    drag = null;
    if (moved) return;
    const found = hit(event);
    if (found) choose(found.group, found.instruction);
  });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const at = view[0] + (event.offsetX - GUTTER) / (canvas.clientWidth - GUTTER - 6) * (view[1] - view[0]);
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), at);
  }, { passive: false });
  const keys = {
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: () => setView(0, part.cycles),
    ArrowLeft: () => setView(...view.map((t) => t - 0.15 * (view[1] - view[0]))),
    ArrowRight: () => setView(...view.map((t) => t + 0.15 * (view[1] - view[0]))),
    "[": () => step(-1), "]": () => step(1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  byId("t-in").addEventListener("click", () => zoom(0.6));
  byId("t-out").addEventListener("click", () => zoom(1 / 0.6));
  byId("t-all").addEventListener("click", () => setView(0, part.cycles));

  // --- programs ----------------------------------------------------------------------------------

  function open(at) {
    number = at;
    part = D.parts[at];
    byId("part").value = String(at);
    group = instruction = -1;
    view = [0, Math.max(part.cycles, 1)];
    makeLanes();
    makeLayers();
    find();
    const used = new Set(part.spans.map((s) => resource(part.units[s[0]])).concat(part.groups.map((g) => g.bound)));
    byId("legend").replaceChildren(...Object.entries(D.legend).filter(([name]) => used.has(name)).map(
      ([name, text]) => element("span", {}, element("i", { style: { background: `var(--${name})` } }), text)));
  }
  D.parts.forEach((_, at) => byId("part").append(element("option", { value: String(at), text: `program ${at}` })));
  byId("part").hidden = D.parts.length < 2;
  byId("part").addEventListener("change", (event) => { open(Number(event.target.value)); draw(); });
  if (!D.parts.length) return;
  open(0);
  const slowest = part.groups.reduce((most, g, i) => g.cycles > part.groups[most].cycles ? i : most, 0);
  if (part.groups.length) choose(slowest, -1); else draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let width = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    draw();
    rows();
  }).observe(document.body);
})();
