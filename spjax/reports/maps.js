// Success and return over a grid of contexts, with the ways of the curricula on it.

const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

function heat(share) {
  const place = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1), i = Math.min(VIRIDIS.length - 2, Math.floor(place));
  const mix = [1, 3, 5].map((k) => {
    const [one, two] = [VIRIDIS[i], VIRIDIS[i + 1]].map((color) => parseInt(color.slice(k, k + 2), 16));
    return Math.round(one + (place - i) * (two - one));
  });
  return `rgb(${mix.join(",")})`;
}

function mapPicture(map, panel, content) {
  const height = 300, { dimensions, ends } = content, [i, j] = panel.pair, flat = i === j;
  const svg = draw("svg", { role: "img", height, "aria-label": panel.title });
  const values = panel.means.flat().filter((value) => value !== null);
  const [low, high] = panel.share ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const range = `${shown(low)} (dark) to ${shown(high)} (bright)`;
  const note = flat ? "" : dimensions.length > 2 ? `${range}; mean over the other contexts` : range;
  const element = make("figure", {}, make("figcaption", {}, make("b", {}, panel.title), make("span", {}, note)), svg);

  function drawCells(frame, width) {
    const inside = layer(svg, frame, width, height);
    const step = (row) => (row.length > 1 ? row[1] - row[0] : 1), [dx, dy] = [step(panel.x), step(panel.y)];
    panel.x.forEach((cx, a) => panel.y.forEach((cy, b) => {
      const value = panel.means[a][b];
      if (value === null) return;
      const [left, right] = [cx - dx / 2, cx + dx / 2].map(frame.x), [bottom, top] = [cy - dy / 2, cy + dy / 2].map(frame.y);
      const cell = draw("rect", { x: left, y: top, width: right - left + 0.4, height: bottom - top + 0.4, fill: heat((value - low) / (high - low || 1)) });
      cell.append(draw("title", {}, `${shown(cx)}, ${shown(cy)}: ${shown(value)}`));
      inside.append(cell);
    }));
    for (const way of map.ways) {
      const points = frame.line(way.map((mean) => [mean[i], mean[j]]));
      inside.append(draw("polyline", { points, fill: "none", stroke: "#fff", "stroke-width": 3.2 }));
      inside.append(draw("polyline", { points, fill: "none", stroke: "#b3261e", "stroke-width": 1.4 }));
      inside.append(draw("circle", { cx: frame.x(way[0][i]), cy: frame.y(way[0][j]), r: 4, fill: "#fff", stroke: "#000" }));
    }
    for (const mean of meansOf(ends[map.series].target)) {
      inside.append(draw("polygon", { points: starPoints(frame.x(mean[i]), frame.y(mean[j]), 9), fill: "#fff", stroke: "#000" }));
    }
  }

  function drawLine(frame, width) {
    const scale = panel.share ? linearScale(-0.02, 1.02, 5) : linearScale(Math.min(0, low), high, 5);
    const y = (value) => height - frame.bottom - scale.at(value) * (height - frame.top - frame.bottom);
    for (const tick of scale.ticks) {
      svg.append(draw("line", { class: "grid", x1: frame.left, x2: width - frame.right, y1: y(tick), y2: y(tick) }));
      svg.append(draw("text", { x: frame.left - 5, y: y(tick) + 4, "text-anchor": "end" }, shown(tick)));
    }
    const points = panel.x.map((cx, a) => `${frame.x(cx)},${y(panel.means[a][a])}`).join(" ");
    svg.append(draw("polyline", { points, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
    for (const target of meansOf(ends[map.series].target).map(([mean]) => frame.x(mean))) {
      svg.append(draw("line", { class: "limit", x1: target, x2: target, y1: frame.top, y2: height - frame.bottom }));
    }
  }

  function drawAll() {
    const width = svg.clientWidth, frame = frameOf(dimensions, i, j, width, height);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (!width) return;
    if (flat) drawLine(frame, width);
    else drawCells(frame, width);
    drawFrame(svg, dimensions, i, flat ? null : j, frame, width, height, flat ? panel.title : axisName(dimensions[j]));
  }
  new ResizeObserver(drawAll).observe(svg);
  return { element, draw: drawAll };
}
