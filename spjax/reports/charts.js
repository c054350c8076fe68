// Curves with bands: hover, or focus and arrow keys, for the numbers at an iteration.

const DASHES = { solid: "", dashed: "7 3", dashdot: "7 3 1.5 3", dotted: "1.5 3" };
const EDGE = { left: 46, right: 12, top: 8, bottom: 34 };
const dark = matchMedia("(prefers-color-scheme: dark)");
const colorOf = (look) => (dark.matches ? look.dark : look.light);

function swatch(look) {
  const line = { x1: 0, x2: 22, y1: 4, y2: 4, stroke: colorOf(look), "stroke-width": 3, "stroke-dasharray": DASHES[look.dashes] };
  return draw("svg", { class: "swatch", "aria-hidden": "true" }, draw("line", line));
}

const MOST_BANDS = 6;  // curves at once that have bands

// Pieces of a curve between its gaps, each a list of positions.
function pieces(values) {
  const found = [];
  values.forEach((value, i) => {
    if (value === null) return;
    if (i > 0 && values[i - 1] !== null) found[found.length - 1].push(i);
    else found.push([i]);
  });
  return found;
}

function verticalScale(panel, curves, count) {
  const values = curves.flatMap((curve) => [...curve.low, ...curve.middle, ...curve.high]).filter((value) => value !== null);
  values.push(...panel.lines.map((line) => line.value));
  const positive = values.filter((value) => value > 0);
  if (panel.success) return linearScale(-0.02, 1.02, count);
  if (panel.scale === "log" && positive.length) return logScale(Math.min(...positive), Math.max(...positive), count);
  if (panel.scale === "symlog" && positive.length) return symlogScale(Math.min(...positive), Math.max(...positive), count);
  const low = Math.min(...values), high = Math.max(...values), bottom = panel.from_zero ? Math.min(0, low) : low;
  return linearScale(bottom, high + 0.04 * (high - bottom || 1), count);
}

// Returns { element, draw }; `visible` is the set of series that are shown.
function chart(panel, looks, visible) {
  const svg = draw("svg", { role: "img", tabindex: 0, height: 250, "aria-label": `${panel.title}; arrow keys read the curves` });
  const tip = make("div", { class: "tip", hidden: true, "aria-live": "polite" });
  const about = [panel.note, panel.about].filter(Boolean).map((text) => make("span", {}, text));
  const element = make("figure", {}, make("figcaption", {}, make("b", {}, panel.title), ...about), svg, tip);
  let view = null, place = null;

  function drawAll() {
    const width = svg.clientWidth, height = 250, curves = panel.curves.filter((curve) => visible.has(curve.series));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    view = null;
    if (!width || !curves.length) return;
    const last = Math.max(...curves.map((curve) => curve.iterations[curve.iterations.length - 1]));
    const across = linearScale(0, Math.max(1, last), Math.max(2, Math.floor(width / 80)), true);
    const up = verticalScale(panel, curves, 5);
    const x = (value) => EDGE.left + across.at(value) * (width - EDGE.left - EDGE.right);
    const y = (value) => height - EDGE.bottom - up.at(value) * (height - EDGE.top - EDGE.bottom);
    view = { x, y, curves, width, points: [...new Set(curves.flatMap((curve) => curve.iterations))].sort((a, b) => a - b) };
    drawAxes(across, up, x, y, width, height);
    curves.forEach((curve) => drawCurve(curve, x, y, visible.size <= MOST_BANDS));
    panel.lines.filter(({ series }) => series === null || visible.has(series)).forEach((line) => drawLine(line, x, y, width));
    view.cursor = svg.appendChild(draw("g"));
    if (place !== null) read(place);
  }

  function drawAxes(across, up, x, y, width, height) {
    const right = width - EDGE.right, bottom = height - EDGE.bottom;
    for (const tick of up.ticks) {
      svg.append(draw("line", { class: "grid", x1: EDGE.left, x2: right, y1: y(tick), y2: y(tick) }));
      svg.append(draw("text", { x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, up.text(tick)));
    }
    svg.append(draw("line", { class: "axis", x1: EDGE.left, x2: right, y1: bottom, y2: bottom }));
    for (const tick of across.ticks) {
      svg.append(draw("text", { x: x(tick), y: bottom + 14, "text-anchor": "middle" }, across.text(tick)));
    }
    svg.append(draw("text", { x: (EDGE.left + right) / 2, y: height - 5, "text-anchor": "middle" }, panel.across));
  }

  function drawCurve(curve, x, y, banded) {
    const look = looks[curve.series], color = colorOf(look);
    const point = (values) => (i) => `${x(curve.iterations[i]).toFixed(1)},${y(values[i]).toFixed(1)}`;
    for (const piece of banded ? pieces(curve.low) : []) {
      const around = [...piece.map(point(curve.high)), ...piece.reverse().map(point(curve.low))];
      svg.append(draw("polygon", { points: around.join(" "), fill: color, "fill-opacity": 0.18 }));
    }
    for (const piece of pieces(curve.middle)) {
      const style = { fill: "none", stroke: color, "stroke-width": 1.8, "stroke-dasharray": DASHES[look.dashes] };
      if (piece.length > 1) svg.append(draw("polyline", { points: piece.map(point(curve.middle)).join(" "), ...style }));
      else svg.append(draw("circle", { cx: x(curve.iterations[piece[0]]), cy: y(curve.middle[piece[0]]), r: 2.5, fill: color }));
    }
  }

  function drawLine({ value, label, series }, x, y, width) {
    const style = series === null ? {} : { style: `stroke: ${colorOf(looks[series])}` };
    svg.append(draw("line", { class: "limit", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value), ...style }));
    const over = y(value) - 5 > EDGE.top + 8 ? -5 : 14;
    svg.append(draw("text", { class: "name", x: width - EDGE.right, y: y(value) + over, "text-anchor": "end" }, label));
  }

  // Shows the numbers at the iteration that is nearest to a position among all iterations.
  function read(position) {
    if (!view) return;
    place = Math.max(0, Math.min(view.points.length - 1, position));
    const iteration = view.points[place], rows = [];
    view.cursor.replaceChildren(
      draw("line", { class: "axis", x1: view.x(iteration), x2: view.x(iteration), y1: EDGE.top, y2: 250 - EDGE.bottom }),
    );
    for (const curve of view.curves) {
      const i = curve.iterations.indexOf(iteration), value = i < 0 ? null : curve.middle[i];
      if (value === null) continue;
      const color = colorOf(looks[curve.series]);
      view.cursor.append(draw("circle", { cx: view.x(iteration), cy: view.y(value), r: 3.5, fill: color }));
      const band = curve.low[i] === null ? "" : ` (${shown(curve.low[i])} to ${shown(curve.high[i])})`;
      const name = looks.length > 1 ? `${looks[curve.series].label}: ` : "";
      rows.push(make("div", {}, make("i", { style: `background: ${color}` }), `${name}${shown(value)}${band}`));
    }
    tip.replaceChildren(`iteration ${iteration.toLocaleString("en")}`, ...rows);
    tip.hidden = false;
    const left = svg.offsetLeft + view.x(iteration) + 12, room = element.clientWidth - tip.offsetWidth - 6;
    tip.style.left = `${Math.max(6, left > room ? Math.min(room, left - tip.offsetWidth - 24) : left)}px`;
    tip.style.top = `${svg.offsetTop + 10}px`;
  }

  function leave() {
    place = null;
    tip.hidden = true;
    if (view) view.cursor.replaceChildren();
  }

  function nearest(event) {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const distances = view.points.map((iteration) => Math.abs(view.x(iteration) - at));
    return distances.indexOf(Math.min(...distances));
  }

  svg.addEventListener("pointermove", (event) => view && read(nearest(event)));
  svg.addEventListener("pointerdown", (event) => view && read(nearest(event)));
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") leave();
    if (!view || step === undefined) return;
    event.preventDefault();
    read((place ?? (step < 0 ? view.points.length : -1)) + step);
  });
  new ResizeObserver(drawAll).observe(svg);
  return { element, draw: drawAll };
}

function legend(looks, visible, change) {
  return make("div", { class: "bar legend", role: "group", "aria-label": "curves" }, ...looks.map((look, i) => {
    const button = make("button", { type: "button", "aria-pressed": String(visible.has(i)) }, swatch(look), look.label);
    button.addEventListener("click", () => {
      if (visible.has(i)) visible.delete(i);
      else visible.add(i);
      button.setAttribute("aria-pressed", visible.has(i));
      change();
    });
    return button;
  }));
}
