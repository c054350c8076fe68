// A camera that circles around a point: drag to turn, wheel or + and - for the distance, Shift and drag to move, arrow keys too.

function orbiting(canvas, from, at) {
  const away = minus(from, at);
  const view = { at: [...at], distance: Math.hypot(...away), azimuth: Math.atan2(away[1], away[0]), height: 0 };
  view.height = Math.asin(away[2] / view.distance);
  const pointers = new Map();

  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  const direction = () => [
    Math.cos(view.height) * Math.cos(view.azimuth), Math.cos(view.height) * Math.sin(view.azimuth), Math.sin(view.height),
  ];

  function turn(x, y) {
    view.azimuth -= x;
    view.height = clamp(view.height + y, -1.5, 1.5);
  }
  function zoom(factor) {
    view.distance = clamp(view.distance * factor, 0.05, 100);
  }
  function move(x, y) {
    const right = unit(cross([0, 0, 1], direction())), up = cross(direction(), right);
    view.at = plus(view.at, plus(times(right, -x * view.distance), times(up, y * view.distance)));
  }
  const spread = () => {
    const [one, two] = [...pointers.values()];
    return Math.hypot(one.x - two.x, one.y - two.y);
  };

  canvas.tabIndex = 0;
  canvas.setAttribute("aria-label", "scene; arrow keys turn it, + and - change the distance");
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  canvas.onpointerup = canvas.onpointercancel = (event) => pointers.delete(event.pointerId);
  canvas.onpointermove = (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const apart = pointers.size === 2 ? spread() : 0;
    const [x, y] = [(event.clientX - last.x) / canvas.clientHeight, (event.clientY - last.y) / canvas.clientHeight];
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (pointers.size === 2) zoom(apart / Math.max(1, spread()));
    else if (event.shiftKey || event.buttons === 2) move(x, y);
    else turn(3 * x, 3 * y);
  };
  canvas.oncontextmenu = (event) => event.preventDefault();
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 800));
  }, { passive: false });
  canvas.onkeydown = (event) => {
    const actions = {
      ArrowLeft: () => turn(0.1, 0), ArrowRight: () => turn(-0.1, 0), ArrowUp: () => turn(0, 0.1), ArrowDown: () => turn(0, -0.1),
      "+": () => zoom(0.9), "-": () => zoom(1 / 0.9),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  };
  return { at: () => view.at, eye: () => plus(view.at, times(direction(), view.distance)) };
}
