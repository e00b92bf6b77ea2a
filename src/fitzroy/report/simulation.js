"use strict";
(() => {
  const { data: D, byId, css, show, hide, fit, clipped } = Page;
  const still = matchMedia("print");

  const time = (us) => us >= 1e5 ? (us / 1e3).toFixed(1) + " ms" : us >= 1e3
    ? (us / 1e3).toFixed(3) + " ms" : us.toFixed(us < 10 ? 3 : 1) + " µs";
  const whole = (n) => Math.round(n).toLocaleString("en-US");
  const us = (cycle) => D.start + cycle / D.mhz;
  const resource = (unit) => D.resources[unit] || "scalar";
  const spaced = (name) => name.replaceAll("_", " ");

  // --- timeline ----------------------------------------------------------------------------------

  const canvas = byId("timeline");
  const S = D.spans;
  const span = S.b.map((b, i) => ({
    index: i, unit: D.units[S.u[i]], tiles: S.t[i], issue: S.i[i],
    from: us(b), to: us(b + S.l[i]), busy: S.y[i], length: S.l[i], waits: S.w[i] || null,
  }));
  const phases = D.phases.map((p, number) => ({ number, from: us(p[0]), to: us(p[1]), name: p[2] }));
  const transfers = D.transfers.map(([kind, size, from, to]) => ({ kind, size, from, to }));
  const critical = D.critical.map(([unit, issue, from, to, cause]) => ({
    unit: D.units[unit], issue, from: us(from), to: us(to), cause: D.causes[cause],
  }));

  // Stretches in which neither host nor chip does anything are drawn as short as the rest allows:
  // `from` and `to` are microseconds of the inference, `begin` and `end` where they are drawn.
  const SHOWN = 0.02, LONG = 0.08;
  const idle = [];
  {
    const busy = [...transfers, { from: us(0), to: us(D.cycles) }].sort((a, b) => a.from - b.from);
    let at = 0;
    for (const { from, to } of [...busy, { from: D.total, to: D.total }]) {
      if (from - at > LONG * D.total) idle.push({ from: at, to: from });
      at = Math.max(at, to);
    }
  }
  let folding = idle.length > 0;
  const cut = (gap) => folding ? (gap.to - gap.from) - SHOWN * D.total : 0;
  function folded(t) {
    let off = 0;
    for (const gap of idle) {
      if (t >= gap.to) off += cut(gap);
      else if (t > gap.from) off += cut(gap) * (t - gap.from) / (gap.to - gap.from);
    }
    return t - off;
  }
  function unfolded(x) {
    let t = x;
    for (const gap of idle) {
      if (t <= gap.from) break;
      const drawn = gap.to - gap.from - cut(gap);
      t = t - gap.from >= drawn ? t + cut(gap)
        : gap.from + (t - gap.from) / drawn * (gap.to - gap.from);
    }
    return t;
  }
  function place() {
    for (const item of [...span, ...phases, ...transfers, ...critical]) {
      item.begin = folded(item.from);
      item.end = folded(item.to);
    }
  }
  place();

  const use = D.use;
  let mostUse = 0.1;
  for (let i = 1; i < use.t.length; i++) {
    const length = use.t[i] - use.t[i - 1];
    // What lasts a few cycles is not the scale of everything.
    if (length >= 16) mostUse = Math.max(mostUse, (use.s[i] - use.s[i - 1]) / length);
  }

  function lanesOf(tile) {
    return D.engines.map((unit) => ({
      kind: "span", label: spaced(unit), unit,
      items: span.filter((s) => s.unit === unit && s.tiles >> tile & 1),
    })).filter((lane) => lane.items.length);
  }
  function makeRows(all) {
    const rows = [];
    const to = transfers.filter((t) => t.kind !== "output" && t.kind !== "interrupt");
    const from = transfers.filter((t) => t.kind === "output" || t.kind === "interrupt");
    rows.push({ kind: "head", label: "host" });
    rows.push({ kind: "transfer", label: "to the chip", items: to });
    rows.push({ kind: "transfer", label: "to the host", items: from });
    rows.push({ kind: "head", label: "program" });
    rows.push({ kind: "phase", label: "phases", items: phases });
    rows.push({ kind: "use", label: `MAC use, to ${mostUse.toFixed(mostUse < 10 ? 1 : 0)} %` });
    if (critical.length) rows.push({ kind: "critical", label: "critical path", items: critical });
    for (const unit of ["scalar", ...D.streams]) {
      const items = span.filter((s) => s.unit === unit && !s.tiles);
      if (items.length) rows.push({ kind: "span", label: spaced(unit), unit, items });
    }
    const tiles = all ? D.tiles.map((_, tile) => tile) : [D.busiest];
    for (const tile of tiles) {
      const note = tile === D.busiest ? " · busiest op engine" : "";
      rows.push({ kind: "head", label: "tile " + D.tiles[tile] + note });
      rows.push(...lanesOf(tile));
    }
    const tall = all ? 11 : 18;
    const heights = { head: 20, transfer: 16, phase: 20, use: 40, critical: 14, span: tall };
    let y = 22;
    for (const row of rows) {
      row.y = y;
      row.h = heights[row.kind];
      y += row.h;
    }
    rows.height = y + 6;
    return rows;
  }

  let all = false;
  let rows = makeRows(false);
  let full = [0, Math.max(folded(D.total), 1e-6)];
  let view = [...full];
  const gutter = () => canvas.clientWidth < 640 ? 92 : 132;
  const scaleX = (width) => {
    const left = gutter();
    const k = (width - left - 8) / (view[1] - view[0]);
    return (t) => left + (t - view[0]) * k;
  };

  function ticks(g, width, x, height, line, soft) {
    const want = (view[1] - view[0]) / Math.max(2, (width - gutter()) / 110);
    const base = 10 ** Math.floor(Math.log10(want));
    const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= want);
    const unit = unfolded(view[1]) >= 1e3 && step >= 1 ? [1e3, " ms"] : [1, " µs"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit[0]) - 1e-9));
    g.textAlign = "center";
    const last = unfolded(view[1]);
    let free = -Infinity;
    for (let t = Math.ceil(unfolded(view[0]) / step) * step; t <= last; t += step) {
      if (folding && idle.some((gap) => t > gap.from && t < gap.to)) {
        // Inside of a fold there is no scale.
        t = Math.floor(idle.find((gap) => t > gap.from && t < gap.to).to / step) * step;
        continue;
      }
      const px = Math.round(x(folded(t))) + 0.5;
      g.strokeStyle = line;
      g.beginPath();
      g.moveTo(px, 18);
      g.lineTo(px, height);
      g.stroke();
      g.fillStyle = soft;
      const label = (t / unit[0]).toFixed(digits) + unit[1];
      const half = g.measureText(label).width / 2;
      if (px - half >= Math.max(gutter() - 20, free)) {
        g.fillText(label, Math.min(px, width - half - 2), 13);
        free = px + half + 6;
      }
    }
    g.textAlign = "left";
  }

  function visible(items) {
    // Items are in order of their beginning; one that ends late may begin early.
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle].reach < view[0]) low = middle + 1; else high = middle;
    }
    return low;
  }
  for (const items of [span, phases, transfers, critical]) items.sort((a, b) => a.begin - b.begin);

  function reach(items) {
    let most = -Infinity;
    for (const item of items) {
      most = Math.max(most, item.end);
      item.reach = most;
    }
  }

  function boxes(g, row, x, right, color, label, fill) {
    reach(row.items);
    const left = gutter();
    let last = -1;
    for (let i = visible(row.items); i < row.items.length; i++) {
      const item = row.items[i];
      if (item.begin > view[1]) break;
      const x0 = Math.max(left, x(item.begin));
      const x1 = Math.min(right, x(item.end));
      if (item.end < view[0]) continue;
      const w = x1 - x0;
      if (w < 0.8) {
        // Many in one column are one line.
        if (Math.floor(x0) === last) continue;
        last = Math.floor(x0);
        g.globalAlpha = 0.75;
        g.fillStyle = color(item);
        g.fillRect(last, row.y + 2, 1, row.h - 4);
        g.globalAlpha = 1;
        continue;
      }
      const gap = w > 4 ? 0.5 : 0;
      const part = fill ? fill(item) : 1;
      g.fillStyle = color(item);
      g.globalAlpha = 0.25;
      g.fillRect(x0, row.y + 2, w - gap, row.h - 4);
      g.globalAlpha = 1;
      const solid = part > 0 ? Math.max(1, (row.h - 4) * part) : 0;
      g.fillRect(x0, row.y + row.h - 2 - solid, w - gap, solid);
      if (label && w > 34 && row.h >= 14) {
        const text = clipped(g, label(item), w - 8);
        if (text) {
          // Text stands on the solid part or on the light one, and must be read on both.
          const y = row.y + row.h / 2 + 3.5;
          g.fillStyle = part > 0.8 ? css("--card") : css("--ink");
          if (part > 0.3 && part <= 0.8) {
            g.strokeStyle = css("--card");
            g.lineWidth = 3;
            g.lineJoin = "round";
            g.strokeText(text, x0 + 4, y);
            g.lineWidth = 1;
          }
          g.fillText(text, x0 + 4, y);
        }
      }
    }
  }

  // The middle of the tallest stretch without a heading: headings are written across the chart.
  function middleOfRows() {
    const edges = [...rows.filter((row) => row.kind === "head").map((row) => row.y), rows.height];
    let best = 0;
    for (let i = 1; i < edges.length - 1; i++) {
      if (edges[i + 1] - edges[i] > edges[best + 1] - edges[best]) best = i;
    }
    return (edges[best] + edges[best + 1]) / 2 + 10;
  }

  function folds(g, x, gap, left, right, grid, soft) {
    const a = Math.max(left, x(folded(gap.from))), b = Math.min(right, x(folded(gap.to)));
    if (b <= a) return;
    g.fillStyle = grid;
    g.fillRect(a, 18, b - a, rows.height - 18);
    g.save();
    g.translate((a + b) / 2 + 4, middleOfRows());
    g.rotate(-Math.PI / 2);
    g.fillStyle = soft;
    g.textAlign = "center";
    if (b - a > 11) g.fillText(`${time(gap.to - gap.from)} idle`, 0, 0);
    g.restore();
  }

  let marked = null;
  function draw() {
    const [g, width] = fit(canvas, rows.height);
    const x = scaleX(width);
    const left = gutter();
    const right = width - 8;
    const ink = css("--ink"), soft = css("--soft"), line = css("--line"), grid = css("--grid");
    const colors = {};
    for (const name of ["op", "ring", "mesh", "conversion", "infeed", "fence", "scalar", "host"]) {
      colors[name] = css("--" + name);
    }
    g.font = "11px system-ui, sans-serif";
    if (marked !== null) {
      g.fillStyle = css("--hover");
      const a = Math.max(left, x(phases[marked].begin)), b = Math.min(right, x(phases[marked].end));
      if (b > a) g.fillRect(a, 18, b - a, rows.height - 18);
    }
    ticks(g, width, x, rows.height, grid, soft);
    if (folding) {
      for (const gap of idle) folds(g, x, gap, left, right, grid, soft);
    }
    for (const row of rows) {
      if (row.kind === "head") {
        g.fillStyle = ink;
        g.font = "600 11px system-ui, sans-serif";
        g.fillText(row.label, 8, row.y + 14);
        g.font = "11px system-ui, sans-serif";
        g.strokeStyle = line;
        g.beginPath();
        g.moveTo(0, row.y + 0.5);
        g.lineTo(width, row.y + 0.5);
        g.stroke();
        continue;
      }
      g.fillStyle = soft;
      g.font = (row.h < 12 ? "9px" : "11px") + " system-ui, sans-serif";
      g.fillText(clipped(g, row.label, left - 16), 12, row.y + row.h / 2 + (row.h < 12 ? 3 : 4));
      g.font = "11px system-ui, sans-serif";
      g.save();
      g.beginPath();
      g.rect(left, row.y, right - left + 1, row.h);
      g.clip();
      if (row.kind === "transfer") {
        boxes(g, row, x, right, () => colors.host, (t) => t.kind);
      } else if (row.kind === "phase") {
        boxes(g, row, x, right, () => colors.scalar, (p) => p.name, () => 0);
        g.fillStyle = soft;
        let last = -3;
        for (const p of phases) {
          const px = x(p.begin);
          // Where boundaries would cover everything, some are left out.
          if (px < left || px > right || px - last < 3) continue;
          g.fillRect(px, row.y + 2, 1, row.h - 4);
          last = px;
        }
      } else if (row.kind === "critical") {
        boxes(g, row, x, right, (c) => colors[resource(c.unit)], null);
      } else if (row.kind === "use") {
        curve(g, row, x, left, right, colors.op, grid);
      } else {
        const color = colors[resource(row.unit)];
        boxes(g, row, x, right, () => color,
          (s) => s.issue < 0 ? spaced(s.unit) : spaced(D.issued[s.issue][0]),
          (s) => s.length > 0 ? Math.min(1, s.busy / s.length) : 1);
      }
      g.restore();
    }
  }

  function curve(g, row, x, left, right, color, grid) {
    const base = row.y + row.h - 4, tall = row.h - 8;
    g.strokeStyle = grid;
    g.strokeRect(left + 0.5, row.y + 4.5, right - left, tall);
    g.fillStyle = color;
    const last = use.t.length - 1;
    let at = 0;
    const done = (cycle) => {
      while (at < last && use.t[at + 1] <= cycle) at++;
      if (cycle <= use.t[0]) return use.s[0];
      if (at >= last) return use.s[last];
      return use.s[at] + (use.s[at + 1] - use.s[at]) * (cycle - use.t[at]) / (use.t[at + 1] - use.t[at]);
    };
    const cycle = (px) => (unfolded(view[0] + (px - left) / (right - left) * (view[1] - view[0])) - D.start) * D.mhz;
    let before = done(cycle(left));
    for (let px = left; px < right; px++) {
      // The mean over what one column covers.
      const now = done(cycle(px + 1));
      const mean = (now - before) / (cycle(px + 1) - cycle(px));
      before = now;
      const h = tall * Math.min(1, mean / mostUse);
      if (h > 0) g.fillRect(px, base - h, 1, h);
    }
  }

  function setView(a, b) {
    const least = 0.02, most = (full[1] - full[0]) * 1.02;
    let size = Math.min(most, Math.max(least, b - a));
    const middle = (a + b) / 2;
    a = middle - size / 2;
    b = middle + size / 2;
    if (a < full[0] - size * 0.2) { a = full[0] - size * 0.2; b = a + size; }
    if (b > full[1] + size * 0.2) { b = full[1] + size * 0.2; a = b - size; }
    view = size >= (full[1] - full[0]) ? [...full] : [a, b];
    schedule();
  }
  let waiting = false;
  function schedule() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }
  function zoom(factor, at) {
    const t = at === undefined ? (view[0] + view[1]) / 2 : at;
    setView(t - (t - view[0]) * factor, t + (view[1] - t) * factor);
  }
  const pan = (part) => {
    const size = view[1] - view[0];
    setView(view[0] + part * size, view[1] + part * size);
  };
  const timeAt = (px) => {
    const left = gutter();
    return view[0] + (px - left) / (canvas.clientWidth - left - 8) * (view[1] - view[0]);
  };
  function gotoPhase(number) {
    const p = phases[number];
    if (!p) return;
    marked = number;
    const size = Math.max(p.end - p.begin, 0.02);
    setView(p.begin - size * 0.05, p.end + size * 0.05);
    byId("tl-status").textContent = `Phase ${number}: ${p.name}, ${time(p.to - p.from)}`;
    for (const row of document.querySelectorAll("#phases tbody tr")) {
      row.classList.toggle("on", Number(row.dataset.phase) === number);
    }
  }

  function hit(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const row = rows.find((r) => py >= r.y && py < r.y + r.h);
    if (!row || !row.items || px < gutter()) return null;
    const t = timeAt(px);
    const near = 2.5 * (view[1] - view[0]) / canvas.clientWidth;
    let best = null, far = Infinity;
    for (const item of row.items) {
      if (item.begin > t + near) break;
      const off = t < item.begin ? item.begin - t : t > item.end ? t - item.end : 0;
      if (off < far || (off === far && item.end - item.begin < best.end - best.begin)) {
        far = off;
        best = item;
      }
    }
    return far <= near ? [row, best] : null;
  }
  function tilesText(mask) {
    const names = D.tiles.filter((_, tile) => mask >> tile & 1);
    return names.length === D.tiles.length ? "all tiles" : names.length > 6
      ? names.length + " tiles" : (names.length > 1 ? "tiles " : "tile ") + names.join(" ");
  }
  function details(event) {
    const found = hit(event);
    if (!found) { hide(); return; }
    const [row, item] = found;
    const length = item.to - item.from;
    const lines = [`${time(item.from)} + ${time(length)}`];
    let title = "", code = "";
    if (row.kind === "transfer") {
      title = item.kind;
      lines.push(`${whole(item.size)} bytes` + (length > 0 ? `, ${(item.size / length).toFixed(1)} MB/s` : ""));
    } else if (row.kind === "phase") {
      title = `${item.number}: ${item.name}`;
      lines[0] += `, ${whole(length * D.mhz)} cycles`;
    } else {
      const name = item.issue >= 0 ? spaced(D.issued[item.issue][0]) + " @" + D.issued[item.issue][1] : spaced(item.unit);
      title = row.kind === "critical" ? "critical path: " + name : name;
      lines[0] += `, ${whole(length * D.mhz)} cycles`;
      if (row.kind === "critical") {
        lines.push("why not earlier: " + item.cause);
      } else {
        if (item.tiles) lines.push(tilesText(item.tiles));
        lines.push(`busy ${whole(item.busy)} cycles`);
        if (item.waits) {
          const waits = item.waits.map(([cause, cycles]) => `${D.causes[cause]} ${whole(cycles)}`);
          lines.push("waits: " + waits.join(", "));
        }
      }
      if (item.issue >= 0) code = D.texts[D.issued[item.issue][2]];
    }
    show(event, title, lines, code);
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = { x: event.clientX, view: [...view] };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
    hide();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { details(event); return; }
    const k = (view[1] - view[0]) / (canvas.clientWidth - gutter() - 8);
    const move = (drag.x - event.clientX) * k;
    setView(drag.view[0] + move, drag.view[1] + move);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => { drag = null; canvas.classList.remove("moving"); });
  }
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan((event.deltaX || event.deltaY) / 1000);
      }
      return;
    }
    event.preventDefault();
    hide();
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), timeAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => {
    const t = timeAt(event.offsetX);
    const p = phases.find((item) => item.begin <= t && t < item.end);
    if (p) gotoPhase(p.number);
  });
  const keys = {
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7),
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
    Home: () => wholeRun(), 0: () => wholeRun(),
    "[": () => gotoPhase(Math.max(0, (marked ?? 1) - 1)),
    "]": () => gotoPhase(Math.min(phases.length - 1, (marked ?? -1) + 1)),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  function wholeRun() {
    marked = null;
    byId("tl-status").textContent = "";
    setView(...full);
  }
  byId("tl-in").addEventListener("click", () => zoom(0.6));
  byId("tl-out").addEventListener("click", () => zoom(1 / 0.6));
  byId("tl-fit").addEventListener("click", wholeRun);
  byId("tl-chip").addEventListener("click", () => { marked = null; setView(folded(us(0)), folded(us(D.cycles))); });
  byId("tl-fold").hidden = byId("tl-fold-help").hidden = !idle.length;
  byId("tl-fold").addEventListener("click", (event) => {
    folding = !folding;
    event.currentTarget.setAttribute("aria-pressed", String(folding));
    place();
    full = [0, Math.max(folded(D.total), 1e-6)];
    wholeRun();
  });
  byId("tl-all").addEventListener("click", (event) => {
    all = !all;
    event.currentTarget.setAttribute("aria-pressed", String(all));
    rows = makeRows(all);
    schedule();
  });
  const used = new Set([...span, ...critical].map((s) => resource(s.unit)).concat("host"));
  for (const [name, text] of Object.entries(D.legend)) {
    if (!used.has(name)) continue;
    const item = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.style.background = `var(--${name})`;
    item.append(swatch, text);
    byId("tl-legend").append(item);
  }

  // --- memory ------------------------------------------------------------------------------------

  function mix(a, b, part) {
    const parse = (c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16));
    const [p, q] = [parse(a), parse(b)];
    return "rgb(" + p.map((v, i) => Math.round(v + (q[i] - v) * part)).join(",") + ")";
  }
  function heat(id, use) {
    const element = byId(id);
    const left = 40, top = 4, cell = 13, count = use.live.length;
    const height = top + cell * D.tiles.length + 34;
    const most = Math.max(0.01, ...use.live.map((tiles) => Math.max(...tiles))) / use.capacity;
    function paint() {
      const [g, width] = fit(element, height);
      const w = (width - left - 4) / Math.max(1, count);
      const [low, high] = [css("--heat0"), css("--heat1")];
      g.font = "10px system-ui, sans-serif";
      use.live.forEach((tiles, phase) => tiles.forEach((value, tile) => {
        g.fillStyle = mix(low, high, value / use.capacity / most);
        g.fillRect(left + phase * w, top + tile * cell, Math.max(1, w - (w > 4 ? 1 : 0)), cell - 1);
      }));
      g.fillStyle = css("--soft");
      D.tiles.forEach((name, tile) => g.fillText(name, 4, top + tile * cell + 10));
      const room = (g.measureText(String(count)).width + 12) / w;
      const base = 10 ** Math.floor(Math.log10(Math.max(1, room)));
      const every = [1, 2, 5, 10].map((m) => m * base).find((step) => step >= room);
      for (let phase = 0; phase + room < count; phase += every) {
        g.fillText(String(phase), left + phase * w + 1, top + cell * D.tiles.length + 11);
      }
      const y = top + cell * D.tiles.length + 20;
      g.fillText("phase", 4, y - 9);
      const scale = Math.min(160, width - left - 90);
      for (let i = 0; i < scale; i++) {
        g.fillStyle = mix(low, high, i / scale);
        g.fillRect(left + i, y, 1, 9);
      }
      g.fillStyle = css("--soft");
      g.fillText(`0 to ${(100 * most).toFixed(1)} %`, left + scale + 6, y + 9);
    }
    element.addEventListener("pointermove", (event) => {
      const w = (element.clientWidth - left - 4) / Math.max(1, count);
      const phase = Math.floor((event.offsetX - left) / w);
      const tile = Math.floor((event.offsetY - top) / cell);
      const value = use.live[phase] && use.live[phase][tile];
      if (value === undefined) { hide(); return; }
      const bytes = value * use.bytes;
      show(event, `${phase}: ${D.phases[phase] ? D.phases[phase][2] : ""}`, [
        `tile ${D.tiles[tile]}`,
        `${whole(value)} of ${whole(use.capacity)} ${use.unit}, ${whole(bytes)} bytes, ${(100 * value / use.capacity).toFixed(1)} %`,
      ]);
    });
    element.addEventListener("pointerleave", hide);
    return paint;
  }
  const paints = [draw, heat("mem-narrow", D.memory.narrow), heat("mem-wide", D.memory.wide)];
  const paintAll = () => paints.forEach((paint) => paint());

  // --- table of phases ---------------------------------------------------------------------------

  const table = byId("phases");
  const body = table.tBodies[0];
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    gotoPhase(Number(button.closest("tr").dataset.phase));
    canvas.scrollIntoView({ block: "center" });
    canvas.focus({ preventScroll: true });
  });
  for (const button of document.querySelectorAll("#layers tbody button")) {
    button.addEventListener("click", () => {
      const [first, last] = button.closest("tr").dataset.phases.split(" ").map(Number);
      gotoPhase(first);
      setView(phases[first].begin, phases[last].end);
      canvas.scrollIntoView({ block: "center" });
    });
  }
  for (const dot of document.querySelectorAll("svg .dot")) {
    const open = () => {
      gotoPhase(Number(dot.dataset.phase));
      canvas.scrollIntoView({ block: "center" });
    };
    dot.addEventListener("pointermove", (event) => show(event, dot.dataset.title, dot.dataset.text.split("|")));
    dot.addEventListener("pointerleave", hide);
    dot.addEventListener("click", open);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
  still.addEventListener("change", paintAll);
  addEventListener("beforeprint", () => { wholeRun(); paintAll(); });
  addEventListener("afterprint", paintAll);
  let width = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    paintAll();
  }).observe(document.body);
  paintAll();
})();
