// Time: plays, pauses, scrubs; `makeView(host, film)` gives { start(episode), draw(moment) }, moments in control steps.

const element = (name) => document.getElementById(name);
const film = JSON.parse(element("film").textContent);
const state = { episode: 0, moment: 0, held: 0, playing: true, speed: film.speed };

function fill(select, entries) {
  for (const [value, text] of entries) select.add(new Option(text, value));
}

function showEpisode(view, index) {
  Object.assign(state, { episode: index, moment: 0, held: 0 });
  const episode = film.episodes[index];
  element("scrub").max = episode.returns.length - 1;
  element("task").textContent = episode.task;
  element("episode").value = index;
  view.start(index);
}

function caption() {
  const episode = film.episodes[state.episode];
  const ended = state.moment >= episode.returns.length - 1;
  element("time").textContent = (state.moment * film.period).toFixed(2) + " s";
  element("return").textContent = "return " + episode.returns[Math.floor(state.moment)].toFixed(1);
  element("end").textContent = ended ? episode.end : "";
  element("end").style.color = film.colors[episode.success];
  element("scrub").value = state.moment;
  element("play").textContent = state.playing ? "pause" : "play";
}

function advance(view, seconds) {
  const last = film.episodes[state.episode].returns.length - 1;
  if (state.moment < last) {
    state.moment = Math.min(last, state.moment + seconds * state.speed / film.period);
  } else if ((state.held += seconds) > film.hold) {
    showEpisode(view, (state.episode + 1) % film.episodes.length);
  }
}

function listen(view) {
  element("play").onclick = () => { state.playing = !state.playing; };
  element("scrub").oninput = (event) => {
    Object.assign(state, { moment: Number(event.target.value), held: 0, playing: false });
  };
  element("speed").onchange = (event) => { state.speed = Number(event.target.value); };
  element("episode").onchange = (event) => showEpisode(view, Number(event.target.value));
}

async function main() {
  const speeds = [...new Set([1, 0.5, 0.25, 0.1, film.speed])].sort((a, b) => b - a);
  fill(element("speed"), speeds.map((speed) => [speed, speed === 1 ? "real time" : speed + " × real time"]));
  fill(element("episode"), film.episodes.map((_, index) => [index, `episode ${index + 1} of ${film.episodes.length}`]));
  element("speed").value = film.speed;
  element("episode").hidden = film.episodes.length < 2;
  element("title").textContent = film.title;
  const view = await makeView(element("picture"), film);
  listen(view);
  showEpisode(view, 0);
  let inSight = true;
  new IntersectionObserver(([entry]) => { inSight = entry.isIntersecting; }).observe(element("picture"));
  let before = Infinity;  // a frame may have begun before this line
  const tick = (now) => {
    if (inSight && state.playing) advance(view, Math.max(0, now - before) / 1000);
    before = now;
    if (inSight) view.draw(state.moment);
    caption();
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}

main().catch((error) => {
  const problem = document.createElement("div");
  problem.id = "problem";
  problem.textContent = error.message;
  element("picture").append(problem);
});
