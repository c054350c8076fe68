// Tables: of results, which are sorted by a click on a heading and filtered by words; and of words.

function resultsTable({ columns, rows, what }) {
  const body = make("tbody");
  const order = { column: null, down: false, words: "" };
  const words = columns.map((_, column) => rows.every((row) => typeof row[column][0] === "string"));
  const side = (column) => (words[column] ? "words" : null);
  const heads = columns.map((name, column) => make("th", { scope: "col", class: side(column) }, make("button", { type: "button", onclick: () => sort(column) }, name)));
  const found = make("span", { class: "faint", role: "status" });

  function compare([a], [b]) {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    const ascending = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return order.down ? -ascending : ascending;
  }
  function fill() {
    const chosen = rows.filter((row) => order.words.split(" ").every((word) => row.some(([, text]) => text.toLowerCase().includes(word))));
    if (order.column !== null) chosen.sort((one, other) => compare(one[order.column], other[order.column]));
    body.replaceChildren(...chosen.map((row) => make("tr", {}, ...row.map(([, text], column) => make("td", { class: side(column) }, text)))));
    found.textContent = chosen.length < rows.length ? `${chosen.length} of ${rows.length}` : "";
    heads.forEach((head, column) => {
      const sorted = column === order.column ? (order.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", sorted);
    });
  }
  function sort(column) {
    Object.assign(order, { down: order.column === column ? !order.down : false, column });
    fill();
  }
  const filter = make("input", {
    type: "search", placeholder: `filter the ${what}s`, "aria-label": `filter the ${what}s by what their rows say`,
    oninput: (event) => {
      order.words = event.target.value.toLowerCase();
      fill();
    },
  });
  fill();
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
  const many = rows.length > 8;
  return make("div", { class: "card" }, many ? make("div", { class: "bar" }, filter, found) : null,
    make("div", { class: many ? "wide tall" : "wide", tabindex: 0, role: "region", "aria-label": "results" }, table));
}

function factsList(facts) {
  return make("dl", {}, ...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
}

// Rows of [name, value, default, preset]; the last two are null where they are the same.
function settingsTable(rows) {
  const others = [["default", 2], ["preset", 3]].filter(([, k]) => rows.some((row) => row[k] !== null));
  const head = ["setting", "value", ...others.map(([name]) => name)].map((name) => make("th", { scope: "col" }, name));
  const lines = rows.map((row) => make("tr", { class: row[3] !== null ? "changed" : null },
    ...[row[0], row[1], ...others.map(([, k]) => row[k] ?? "")].map((text) => make("td", {}, text))));
  return make("table", { class: "words" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines));
}
