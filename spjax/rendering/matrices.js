// Vectors of three and matrices of four columns, as WebGL has them.

const minus = (a, b) => a.map((value, i) => value - b[i]);
const plus = (a, b) => a.map((value, i) => value + b[i]);
const times = (a, factor) => a.map((value) => value * factor);
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const unit = (a) => times(a, 1 / Math.hypot(...a));
const cross = ([a, b, c], [x, y, z]) => [b * z - c * y, c * x - a * z, a * y - b * x];

function product(a, b) {
  const result = new Float32Array(16);
  for (let column = 0; column < 4; column++) {
    for (let row = 0; row < 4; row++) {
      for (let k = 0; k < 4; k++) result[4 * column + row] += a[4 * k + row] * b[4 * column + k];
    }
  }
  return result;
}

// From the world to an eye that looks at a point; z is up.
function viewFrom(eye, at) {
  const back = unit(minus(eye, at)), right = unit(cross([0, 0, 1], back)), up = cross(back, right);
  const rows = [right, up, back];
  return new Float32Array([
    ...[0, 1, 2].flatMap((axis) => [...rows.map((row) => row[axis]), 0]),
    ...rows.map((row) => -dot(row, eye)), 1,
  ]);
}

function perspective(fovy, aspect, near, far) {
  const f = 1 / Math.tan((fovy * Math.PI) / 360), depth = near - far;
  return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / depth, -1, 0, 0, (2 * far * near) / depth, 0]);
}

function parallel(reach, near, far) {
  const depth = near - far;
  return new Float32Array([1 / reach, 0, 0, 0, 0, 1 / reach, 0, 0, 0, 0, 2 / depth, 0, 0, 0, (far + near) / depth, 1]);
}

// Where a pose [x, y, z, qw, qx, qy, qz] puts a shape.
function placement([px, py, pz, w, x, y, z]) {
  return new Float32Array([
    1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0,
    2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0,
    px, py, pz, 1,
  ]);
}

// The pose between two, straight in place and, for the small angles of a frame, in direction.
function between(one, two, part) {
  const side = dot(one.slice(3), two.slice(3)) < 0 ? -1 : 1;
  const mixed = one.map((value, i) => value + part * ((i > 2 ? side : 1) * two[i] - value));
  return [...mixed.slice(0, 3), ...unit(mixed.slice(3))];
}
