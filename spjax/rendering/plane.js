// A task in the plane on a canvas.

async function makeView(host, film) {
  const canvas = document.createElement("canvas");
  host.append(canvas);
  const pen = canvas.getContext("2d");
  const [left, right, bottom, top] = film.box;
  let episode = null;

  // Sets the pen to metres, x to the right and y up, all of the box in the picture.
  function clear() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = host.clientWidth * ratio;
    canvas.height = host.clientHeight * ratio;
    const scale = Math.min(canvas.width / (right - left), canvas.height / (top - bottom));
    pen.setTransform(scale, 0, 0, -scale, canvas.width / 2 - scale * (left + right) / 2,
      canvas.height / 2 + scale * (bottom + top) / 2);
    return ratio / scale;  // metres a pixel
  }

  function line(points, width, color) {
    pen.beginPath();
    points.forEach(([x, y]) => pen.lineTo(x, y));
    Object.assign(pen, { lineWidth: width, strokeStyle: color, lineJoin: "round" });
    pen.stroke();
  }

  function dot([x, y], radius, fill, edge, width) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    Object.assign(pen, { fillStyle: fill, strokeStyle: edge, lineWidth: width });
    pen.fill();
    pen.stroke();
  }

  function star([x, y], radius, width) {
    pen.beginPath();
    for (let i = 0; i < 10; i++) {
      const r = i % 2 ? 0.4 * radius : radius, angle = Math.PI * (0.5 + i / 5);
      pen.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
    }
    pen.closePath();
    Object.assign(pen, { fillStyle: "white", strokeStyle: "black", lineWidth: width });
    pen.fill();
    pen.stroke();
  }

  function between(moment) {
    const i = Math.floor(moment), one = episode.path[i], two = episode.path[Math.min(i + 1, episode.path.length - 1)];
    return one.map((value, axis) => value + (moment - i) * (two[axis] - value));
  }

  return {
    start(index) { episode = film.episodes[index]; },
    draw(moment) {
      const pixel = clear(), ended = moment >= episode.path.length - 1, now = between(moment);
      const { color: ink } = getComputedStyle(host);
      const color = ended ? film.colors[episode.success] : ink;
      episode.walls.forEach((wall) => line(wall, 5 * pixel, ink));
      dot(episode.path[0], 6 * pixel, "white", "black", pixel);
      if (film.goal) star(film.goal, 11 * pixel, pixel);
      line([...episode.path.slice(0, Math.floor(moment) + 1), now], 2.5 * pixel, color);
      dot(now, 6 * pixel, color, color, pixel);
    },
  };
}
