// The shapes of MuJoCo's geoms as triangles: rows of [x, y, z, normal x, normal y, normal z], metres. Sizes are half-lengths.

const ENDLESS = 100;  // m, for planes of size 0

// Turns a profile of [radius, height, normal outwards, normal upwards] around the z axis.
function turned(profile, parts = 40) {
  const rows = [];
  const point = ([r, z, out, up], k) => {
    const angle = (2 * Math.PI * k) / parts, x = Math.cos(angle), y = Math.sin(angle);
    return [r * x, r * y, z, out * x, out * y, up];
  };
  for (let i = 0; i + 1 < profile.length; i++) {
    const [low, high] = [profile[i], profile[i + 1]];
    for (let k = 0; k < parts; k++) {
      const corners = [point(low, k), point(low, k + 1), point(high, k + 1), point(high, k)];
      rows.push(...[0, 1, 2, 0, 2, 3].map((corner) => corners[corner]));
    }
  }
  return rows;
}

// A ball of radius 1 in two halves, the upper one lifted by `apart`, the lower one sunk by it.
function arc(radius, apart, steps = 20) {
  const angles = Array.from({ length: steps + 1 }, (_, i) => Math.PI * (i / steps - 0.5));
  const half = (chosen, shift) => chosen.map((angle) => {
    const out = Math.cos(angle), up = Math.sin(angle);
    return [radius * out, radius * up + shift, out, up];
  });
  return [...half(angles.slice(0, steps / 2 + 1), -apart), ...half(angles.slice(steps / 2), apart)];
}

function stretched(rows, [x, y, z]) {
  return rows.map(([px, py, pz, nx, ny, nz]) => {
    const normal = [nx / x, ny / y, nz / z], length = Math.hypot(...normal);
    return [px * x, py * y, pz * z, ...normal.map((value) => value / length)];
  });
}

function rectangle(x, y) {
  return [[-x, -y], [x, -y], [x, y], [-x, -y], [x, y], [-x, y]].map(([px, py]) => [px, py, 0, 0, 0, 1]);
}

function cuboid([x, y, z]) {
  const rows = [];
  for (const axis of [0, 1, 2]) {
    for (const side of [-1, 1]) {
      const [u, v] = [(axis + 1) % 3, (axis + 2) % 3], size = [x, y, z];
      for (const [a, b] of rectangle(1, 1)) {
        const row = [0, 0, 0, 0, 0, 0];
        row[axis] = side * size[axis];
        row[u] = a * size[u];
        row[v] = b * size[v];
        row[3 + axis] = side;
        rows.push(row);
      }
    }
  }
  return rows;
}

const SHAPES = {
  plane: ([x, y]) => rectangle(x || ENDLESS, y || ENDLESS),
  sphere: ([r]) => turned(arc(r, 0)),
  capsule: ([r, h]) => turned(arc(r, h)),
  cylinder: ([r, h]) => turned([[0, -h, 0, -1], [r, -h, 0, -1], [r, -h, 1, 0], [r, h, 1, 0], [r, h, 0, 1], [0, h, 0, 1]]),
  box: cuboid,
  ellipsoid: (size) => stretched(turned(arc(1, 0)), size),
};
