// The contexts over the iterations: a slider, a button that plays, and a picture for each pair of dimensions.

const FRAME_SECONDS = 0.12;
const REACH = 2;  // standard deviations of an ellipse
const OUTSIDE = 0.06;  // of the range, around the bounds

const axisName = ({ name, unit }) => (unit === "1" ? name : `${name} [${unit}]`);

// What a distribution mixes, and how much of the largest share each has; itself where it mixes nothing.
function partsOf(one) {
  const parts = one.components || [one], largest = Math.max(...parts.map(({ share = 1 }) => share));
  return parts.map((part) => ({ ...part, strength: (part.share ?? 1) / largest }));
}

// The means of what has weight, for the stars.
const meansOf = (one) => partsOf(one).filter(({ strength }) => strength > 0.1).map(({ mean }) => mean);

// The line at two standard deviations, of dimensions i and j of a covariance that is written row by row; inside a box where there is one.
function ellipse({ mean, covariance }, dim, i, j, box) {
  const [a, b, c] = [covariance[dim * i + i], covariance[dim * i + j], covariance[dim * j + j]];
  const middle = (a + c) / 2, apart = Math.hypot((a - c) / 2, b), angle = 0.5 * Math.atan2(2 * b, a - c);
  const radii = [middle + apart, middle - apart].map((value) => REACH * Math.sqrt(Math.max(0, value)));
  return Array.from({ length: 73 }, (_, k) => {
    const [x, y] = [radii[0] * Math.cos((k * Math.PI) / 36), radii[1] * Math.sin((k * Math.PI) / 36)];
    const point = [mean[i] + x * Math.cos(angle) - y * Math.sin(angle), mean[j] + x * Math.sin(angle) + y * Math.cos(angle)];
    return point.map((value, at) => within(value, box, at ? j : i));
  });
}

const within = (value, box, k) => (box ? Math.min(box[1][k], Math.max(box[0][k], value)) : value);

// How many of the samples are at each atom, as shares.
function sharesAt(atoms, samples) {
  const counts = atoms.map(() => 0);
  for (const sample of samples) {
    const distances = atoms.map((atom) => atom.reduce((sum, value, k) => sum + (value - sample[k]) ** 2, 0));
    counts[distances.indexOf(Math.min(...distances))] += 1 / samples.length;
  }
  return counts;
}

function starPoints(x, y, radius) {
  return Array.from({ length: 10 }, (_, i) => {
    const r = i % 2 ? 0.42 * radius : radius, angle = Math.PI * (i / 5 - 0.5);
    return `${x + r * Math.cos(angle)},${y + r * Math.sin(angle)}`;
  }).join(" ");
}

function frameOf(dimensions, i, j, width, height) {
  const span = (k) => dimensions[k].high - dimensions[k].low;
  const [left, right, top, bottom] = [50, 10, 8, 36];
  const along = (k, value, from, to) => {
    const share = (value - dimensions[k].low + OUTSIDE * span(k)) / (span(k) * (1 + 2 * OUTSIDE));
    return from + share * (to - from);
  };
  const x = (value) => along(i, value, left, width - right), y = (value) => along(j, value, height - bottom, top);
  return { x, y, left, right, top, bottom, line: (points) => points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") };
}

function drawFrame(svg, dimensions, i, j, frame, width, height, upName) {
  const { x, y, left, bottom } = frame, across = dimensions[i];
  for (const tick of evenTicks(across.low, across.high, Math.max(3, width / 60))) {
    svg.append(draw("text", { x: x(tick), y: height - bottom + 15, "text-anchor": "middle" }, shown(tick)));
  }
  svg.append(draw("text", { class: "name", x: (left + width) / 2, y: height - 5, "text-anchor": "middle" }, axisName(across)));
  const turned = `rotate(-90 12 ${(height - bottom) / 2})`;
  svg.append(draw("text", { class: "name", x: 12, y: (height - bottom) / 2, "text-anchor": "middle", transform: turned }, upName));
  if (j === null) return;
  const up = dimensions[j];
  for (const tick of evenTicks(up.low, up.high, 4)) {
    svg.append(draw("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, shown(tick)));
  }
  svg.append(draw("rect", {
    class: "bounds", x: x(across.low), y: y(up.high), width: x(across.high) - x(across.low), height: y(up.low) - y(up.high),
  }));
}

// A layer that shows nothing outside the plot.
let numLayers = 0;
function layer(svg, { left, right, top, bottom }, width, height) {
  const id = `plot-${numLayers++}`, room = { x: left, y: top, width: width - left - right, height: height - top - bottom };
  const group = draw("g", { "clip-path": `url(#${id})` });
  svg.append(draw("clipPath", { id }, draw("rect", room)), group);
  return group;
}

function drawEnds(svg, ends, dim, i, j, frame) {
  for (const which of ["initial", "target"]) {
    const end = ends[which];
    if (end.atoms) drawAtoms(svg, end.atoms, end.shares, i, j, frame, { class: which });
    else drawEllipses(svg, end, end.box, dim, i, j, frame, { class: which });
  }
  for (const mean of meansOf(ends.target)) {
    svg.append(draw("polygon", { class: "star", points: starPoints(frame.x(mean[i]), frame.y(mean[j]), 8) }));
  }
}

// An ellipse for each component, the fainter the smaller its weight; a dot where it has no extent in these dimensions.
function drawEllipses(svg, one, box, dim, i, j, frame, look) {
  for (const part of partsOf(one)) {
    const opacity = 0.25 + 0.75 * part.strength;
    if (part.covariance[dim * i + i] + part.covariance[dim * j + j] > 0) {
      svg.append(draw("polygon", { points: frame.line(ellipse(part, dim, i, j, box)), opacity, ...look }));
    } else {
      svg.append(draw("circle", { cx: frame.x(part.mean[i]), cy: frame.y(part.mean[j]), r: 9 * Math.sqrt(part.strength), opacity, ...look }));
    }
  }
}

function drawAtoms(svg, atoms, shares, i, j, frame, look) {
  const largest = Math.max(...shares);
  atoms.forEach((atom, k) => {
    if (shares[k] > 0.002 * largest) {
      svg.append(draw("circle", { cx: frame.x(atom[i]), cy: frame.y(atom[j]), r: 9 * Math.sqrt(shares[k] / largest), ...look }));
    }
  });
}

// One pair of dimensions; returns { element, show(lane, frame number) }.
function plane(content, i, j, looks) {
  const { dimensions } = content, height = 300;
  const svg = draw("svg", { role: "img", height, "aria-label": `contexts: ${dimensions[i].name} and ${dimensions[j].name}` });
  const element = make("figure", {}, svg);
  function show(lane, number) {
    const width = svg.clientWidth, frame = frameOf(dimensions, i, j, width, height), now = lane.frames[number];
    const color = colorOf(looks[lane.series]), ends = content.ends[lane.series], dim = dimensions.length;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawFrame(svg, dimensions, i, j, frame, width, height, axisName(dimensions[j]));
    const inside = layer(svg, frame, width, height);
    const way = lane.frames.slice(0, number + 1).filter((one) => one.mean).map(({ mean }) => [mean[i], mean[j]]);
    inside.append(draw("polyline", { points: frame.line(way), fill: "none", stroke: color, "stroke-opacity": 0.6 }));
    if (ends.target.atoms) {
      const look = { fill: color, "fill-opacity": 0.75 };
      drawAtoms(inside, ends.target.atoms, sharesAt(ends.target.atoms, now.samples), i, j, frame, look);
    } else {
      if (now.mean) {
        const look = { fill: color, "fill-opacity": 0.16, stroke: color, "stroke-width": 1.6 };
        drawEllipses(inside, now, ends.initial.box, dim, i, j, frame, look);
      }
      for (const sample of now.samples) {
        inside.append(draw("circle", { cx: frame.x(sample[i]), cy: frame.y(sample[j]), r: 2.6, fill: color, "fill-opacity": 0.75 }));
      }
    }
    drawEnds(inside, ends, dim, i, j, frame);
  }
  return { element, svg, show };
}

// A single dimension: densities, each as high as the others, over a histogram of what was drawn.
function line(content, looks) {
  const { dimensions } = content, [{ low, high, name }] = dimensions, height = 300, bins = 40;
  const svg = draw("svg", { role: "img", height, "aria-label": `contexts: ${name}` });
  const element = make("figure", {}, svg);
  const places = Array.from({ length: 401 }, (_, k) => low - OUTSIDE * (high - low) + (k / 400) * (high - low) * (1 + 2 * OUTSIDE));

  function bells(one, frame, up) {
    const parts = partsOf(one).map(({ mean: [mean], covariance: [variance], strength }) => ({
      mean, strength, std: Math.max(Math.sqrt(variance), (high - low) / 2000),
    }));
    const around = parts.flatMap(({ mean, std }) => [-4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4].map((k) => mean + k * std));
    const shownAt = [...places, ...around].filter((c) => c >= places[0] && c <= places[400]).sort((a, b) => a - b);
    const density = (c) => parts.reduce((sum, { mean, std, strength }) => sum + (strength / std) * Math.exp(-0.5 * ((c - mean) / std) ** 2), 0);
    const densities = shownAt.map(density), highest = Math.max(...densities) || 1;
    return shownAt.map((c, k) => `${frame.x(c).toFixed(1)},${up(densities[k] / highest).toFixed(1)}`).join(" ");
  }

  function barsAt(atoms, samples, frame) {
    return sharesAt(atoms, samples).map((share, k) => ({ x: frame.x(atoms[k][0]) - 5, width: 10, share }));
  }

  function histogram(samples, frame) {
    const counts = Array(bins).fill(0), wide = (frame.x(high) - frame.x(low)) / bins;
    for (const [c] of samples) counts[Math.min(bins - 1, Math.max(0, Math.floor(((c - low) / (high - low)) * bins)))] += 1;
    return counts.map((count, k) => ({ x: frame.x(low) + k * wide + 0.5, width: Math.max(0, wide - 1), share: count }));
  }

  function drawDistribution(one, frame, up, look) {
    if (one.atoms) {
      const largest = Math.max(...one.shares);
      one.atoms.forEach(([c], k) => {
        const tip = up(one.shares[k] / largest);
        svg.append(draw("line", { x1: frame.x(c), x2: frame.x(c), y1: up(0), y2: tip, ...look }));
        svg.append(draw("circle", { cx: frame.x(c), cy: tip, r: 3, ...look }));
      });
    } else if (one.normal || one.components) {
      svg.append(draw("polyline", { points: bells(one, frame, up), ...look }));
    } else {
      const std = Math.sqrt(one.covariance[0]), y = up(look.class === "initial" ? 0.96 : look.class === "target" ? 0.9 : 0.84);
      const [from, to] = [-REACH, REACH].map((k) => frame.x(within(one.mean[0] + k * std, one.box, 0)));
      svg.append(draw("line", { x1: from, x2: to, y1: y, y2: y, ...look }));
      svg.append(draw("circle", { cx: frame.x(one.mean[0]), cy: y, r: 3.5, ...look }));
    }
  }

  function show(lane, number) {
    const width = svg.clientWidth, frame = frameOf(dimensions, 0, 0, width, height), now = lane.frames[number];
    const color = colorOf(looks[lane.series]), ends = content.ends[lane.series];
    const up = (share) => height - frame.bottom - share * (height - frame.bottom - frame.top - 4);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const bars = ends.target.atoms ? barsAt(ends.target.atoms, now.samples, frame) : histogram(now.samples, frame);
    const largest = Math.max(...bars.map(({ share }) => share));
    for (const { x, width: wide, share } of bars) {
      const top = up((0.96 * share) / largest);
      svg.append(draw("rect", { x, y: top, width: wide, height: up(0) - top, fill: color, "fill-opacity": 0.35 }));
    }
    svg.append(draw("line", { class: "axis", x1: frame.x(low), x2: frame.x(high), y1: up(0), y2: up(0) }));
    drawFrame(svg, dimensions, 0, null, frame, width, height, "relative to the highest");
    drawDistribution(ends.initial, frame, up, { class: "initial" });
    drawDistribution(ends.target, frame, up, { class: "target" });
    if (now.mean && !ends.target.atoms) {
      const look = { fill: "none", stroke: color, "stroke-width": 2 };
      const { normal, box } = ends.initial;
      drawDistribution({ ...now, normal: normal && lane.normal, box }, frame, up, look);
    }
    for (const [mean] of meansOf(ends.target)) {
      svg.append(draw("polygon", { class: "star", points: starPoints(frame.x(mean), up(0), 8) }));
    }
  }
  return { element, svg, show };
}

function caption(content) {
  const { dimensions, ends, lanes } = content, moves = lanes.some((lane) => lane.frames.some((one) => one.mean));
  const end = ends[0].target, one = dimensions.length === 1;
  if (end.atoms) {
    const filled = one ? "bars: how often each context was drawn; pins: its weight" : "filled: the contexts that were drawn; dots as large as their share";
    return `${filled[0].toUpperCase()}${filled.slice(1)}; dashed: the initial distribution, solid: the target, whose mean is the star.`;
  }
  const dense = end.normal || end.components, extent = end.box ? ", within the box" : "";
  const mixed = end.components ? " of each component, the fainter the smaller its weight" : "";
  const what = one && dense ? "densities, each scaled to its own height"
    : one ? `bars: mean ± two standard deviations${extent}` : `ellipses: two standard deviations${mixed}${extent}`;
  const stars = end.components ? "whose components have a star each" : "whose mean is the star";
  const current = moves ? `the teacher's distribution, with ${one ? "a histogram of the" : "dots for"} contexts that were drawn` : "contexts that were drawn";
  return `In colour: ${current}; dashed: the initial distribution, solid: the target, ${stars} (${what}).`;
}

function animated(content, looks) {
  const dim = content.dimensions.length;
  const views = dim === 1 ? [line(content, looks)] : content.dimensions.slice(1).map((_, k) => plane(content, 0, k + 1, looks));
  const names = [...new Set(content.lanes.map((lane) => lane.series))];
  const chosen = { series: names[0], lane: null, frame: 0, timer: null };
  const play = make("button", { type: "button", id: "play" }, "▶ play");
  const slider = make("input", { type: "range", min: 0, step: 1, value: 0, id: "iteration", "aria-label": "iteration" });
  const output = make("output", { id: "frame", for: "iteration" }), told = make("p", { class: "faint" });
  const bySeries = make("select", { "aria-label": "curve" }, ...names.map((i) => make("option", { value: i }, looks[i].label)));
  const bySeed = make("select", { "aria-label": "seed" });

  function show() {
    const now = chosen.lane.frames[chosen.frame];
    views.forEach((view) => view.svg.clientWidth && view.show(chosen.lane, chosen.frame));
    slider.value = chosen.frame;
    output.textContent = `iteration ${now.iteration.toLocaleString("en")}`;
    slider.setAttribute("aria-valuetext", output.textContent);
    const facts = now.mean ? now.mean.map((value, k) => `mean ${content.dimensions[k].name} ${shown(value)}`) : [];
    if (now.kl !== null && now.kl !== undefined) facts.push(`KL to the target ${shown(now.kl)} nats`);
    if (now.alpha !== null && now.alpha !== undefined) facts.push(`α ${shown(now.alpha)}`);
    told.textContent = facts.join(" · ") || `${now.samples.length} contexts drawn`;
  }
  function stop() {
    clearInterval(chosen.timer);
    chosen.timer = null;
    play.textContent = "▶ play";
  }
  function start() {
    if (chosen.frame === chosen.lane.frames.length - 1) chosen.frame = 0;
    play.textContent = "⏸ pause";
    chosen.timer = setInterval(() => {
      if (chosen.frame < chosen.lane.frames.length - 1) chosen.frame += 1;
      else stop();
      show();
    }, 1000 * FRAME_SECONDS);
  }
  function choose() {
    const own = content.lanes.filter((lane) => lane.series === chosen.series);
    chosen.lane = own.find(({ label }) => label === chosen.lane?.label) || own[0];
    chosen.frame = Math.min(chosen.frame, chosen.lane.frames.length - 1);
    slider.max = chosen.lane.frames.length - 1;
    bySeed.replaceChildren(...own.map(({ label }) => make("option", { value: label, selected: label === chosen.lane.label }, label)));
    bySeed.hidden = own.length < 2;
    show();
  }
  play.addEventListener("click", () => (chosen.timer === null ? start() : stop()));
  slider.addEventListener("input", () => {
    stop();
    chosen.frame = Number(slider.value);
    show();
  });
  bySeries.addEventListener("change", () => {
    chosen.series = Number(bySeries.value);
    choose();
  });
  bySeed.addEventListener("change", () => {
    chosen.lane = content.lanes.find((lane) => lane.series === chosen.series && lane.label === bySeed.value);
    choose();
  });
  bySeries.hidden = names.length < 2;
  views.forEach((view) => new ResizeObserver(show).observe(view.svg));
  const note = content.all_seeds ? "" : ` The animation has ${content.lanes.filter((lane) => lane.series === names[0]).length} of the seeds.`;
  choose();
  return {
    element: make("div", {},
      make("p", { class: "faint" }, caption(content) + note),
      make("div", { class: "bar" }, play, slider, output, bySeries, bySeed), told,
      make("div", { class: "cards planes" }, ...views.map((view) => view.element))),
    draw: show,
  };
}
