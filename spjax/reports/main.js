// Puts the report together.

const content = JSON.parse(document.getElementById("content").textContent);
const page = document.getElementById("report");
const redraw = [];

function section(title, ...children) {
  page.append(make("section", {}, make("h2", {}, title), ...children));
}

function settingsOf({ label, settings }, alone) {
  const changed = settings.filter((row) => row[3] !== null), unlike = settings.filter((row) => row[2] !== null);
  const parts = [];
  if (changed.length) {
    parts.push(make("p", {}, "Changed from the preset: ", changed.map((row) => `${row[0]} = ${row[1]} (${row[3]})`).join("; "), "."));
  }
  if (unlike.length) {
    const head = make("summary", {}, `${unlike.length} settings that differ from the defaults of their parts`);
    parts.push(make("details", {}, head, make("div", { class: "wide" }, settingsTable(unlike))));
  }
  const all = make("summary", {}, `all ${settings.length} settings${alone ? "" : ` of ${label}`}`);
  parts.push(make("details", {}, all, make("div", { class: "wide" }, settingsTable(settings))));
  return parts;
}

function about() {
  const alone = content.runs.length === 1;
  const cards = content.runs.map((run) => make("div", { class: "card" },
    alone ? null : make("b", {}, run.label), factsList(run.facts), ...settingsOf(run, alone)));
  section(alone ? "The run" : "The runs", make("div", { class: "cards" }, ...cards));
}

function curves() {
  const visible = new Set(content.series.map((_, i) => i));
  const charts = content.panels.map((panel) => chart(panel, content.series, visible));
  charts.forEach((one) => redraw.push(one.draw));
  const update = () => charts.forEach((one) => one.draw());
  const zero = content.zero.length ? `Recorded, and zero in every iteration: ${content.zero.join("; ")}.` : "";
  const names = make("div");
  const fill = () => names.replaceChildren(legend(content.series, visible, update));
  fill();
  redraw.push(fill);
  section("Curves",
    content.others ? make("p", { class: "faint" }, content.others) : null,
    content.series.length > 1 ? names : null,
    content.series.length > MOST_BANDS ? make("p", { class: "faint" }, `Bands are drawn where at most ${MOST_BANDS} curves are shown.`) : null,
    make("div", { class: "cards" }, ...charts.map((one) => one.element)),
    zero ? make("p", { class: "faint" }, zero) : null);
}

function competence() {
  if (!content.maps.length) return;
  const cards = make("div", { class: "cards pairs" });
  let pictures = [];
  const choose = (map) => {
    pictures = map.panels.map((panel) => mapPicture(map, panel, content.contexts));
    cards.replaceChildren(...pictures.map((picture) => picture.element));
  };
  const names = content.maps.map((map, i) => make("option", { value: i }, content.series[map.series].label));
  const chosen = make("select", { "aria-label": "map", onchange: () => choose(content.maps[Number(chosen.value)]) }, ...names);
  redraw.push(() => pictures.forEach((picture) => picture.draw()));
  choose(content.maps[0]);
  const played = `${content.maps[0].episodes.toLocaleString("en")} new episodes of the newest policies on a grid of contexts.`;
  const marks = content.contexts.dimensions.length === 1
    ? "Dashed: the mean of the target, or of its components."
    : "Lines: means of the contexts that seeds were trained in, from the circle on; a star is the mean of the target, or of one of its components.";
  section("What the policies can do",
    make("p", { class: "faint" }, `${played} ${marks}`),
    content.maps.length > 1 ? make("div", { class: "bar" }, chosen) : null, cards);
}

function films() {
  if (!content.films.length) return;
  const apart = content.films.filter(({ page: film }) => film).length > 1 || content.series.length > 1;
  section("Rollouts", ...content.films.map(({ page: film, label, problem }) => problem
    ? make("p", {}, problem)
    : make("figure", {}, apart ? make("figcaption", {}, make("b", {}, label)) : null,
      make("iframe", { title: `episodes of ${label} on the target tasks`, loading: "lazy", srcdoc: film }))));
}

document.getElementById("made").textContent = [...content.summary, `written by ${content.made_by}`].join(" · ");
section("Results", resultsTable(content.results), content.results.note ? make("p", { class: "faint" }, `At the target: ${content.results.note}.`) : null);
curves();
const contexts = animated(content.contexts, content.series);
redraw.push(contexts.draw);
section("Contexts", contexts.element);
competence();
films();
about();
dark.addEventListener("change", () => redraw.forEach((again) => again()));
