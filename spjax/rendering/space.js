// A MuJoCo scene with WebGL: a sun with shadows, a sky, a floor of squares, fog, and the trail of one geom.

const VERTICES = `#version 300 es
in vec3 point;
in vec3 normal;
uniform mat4 eye, sun, place;
out vec3 where, upward;
out vec4 inShadow;
void main() {
  vec4 world = place * vec4(point, 1.0);
  where = world.xyz;
  upward = mat3(place) * normal;
  inShadow = sun * world;
  gl_Position = eye * world;
}`;

const PIXELS = `#version 300 es
precision highp float;
precision highp sampler2DShadow;
in vec3 where, upward;
in vec4 inShadow;
uniform sampler2DShadow shadow;
uniform vec4 color;
uniform vec3 camera, toSun, sky;
uniform float reach;
uniform bool floor_of_squares, plain;
out vec4 pixel;
float lit(float slope) {
  vec3 spot = inShadow.xyz * 0.5 + 0.5;
  if (any(lessThan(spot, vec3(0.0))) || any(greaterThan(spot, vec3(1.0)))) return 1.0;
  float total = 0.0, bias = mix(0.004, 0.0008, slope);
  for (int i = -1; i <= 1; i++)
    for (int j = -1; j <= 1; j++) total += texture(shadow, vec3(spot.xy + vec2(i, j) / 2048.0, spot.z - bias));
  return total / 9.0;
}
void main() {
  vec3 base = color.rgb, n = normalize(upward), look = normalize(camera - where);
  if (plain) { pixel = color; return; }
  if (floor_of_squares) {
    vec2 cell = floor(where.xy * 2.0);
    float near = clamp(1.0 - length(camera - where) / (8.0 * reach), 0.0, 1.0);
    base *= 1.0 - 0.10 * near * mod(cell.x + cell.y, 2.0);
  }
  float slope = max(dot(n, toSun), 0.0);
  float direct = slope * lit(slope);
  float shine = 0.12 * direct * pow(max(dot(n, normalize(toSun + look)), 0.0), 30.0);
  vec3 seen = base * (mix(0.42, 0.62, 0.5 + 0.5 * n.z) + 0.48 * direct) + (floor_of_squares ? 0.0 : shine);
  float haze = smoothstep(2.0 * reach, 12.0 * reach, length(camera - where));
  pixel = vec4(mix(seen, sky, haze), color.a);
}`;

const SKIES = { light: [0.90, 0.93, 0.95], dark: [0.13, 0.15, 0.18] };
const FLOORS = { light: [0.93, 0.94, 0.95, 1], dark: [0.24, 0.26, 0.29, 1] };
const TRAILS = { light: [0.3, 0.3, 0.3, 1], dark: [0.75, 0.75, 0.75, 1] };
const SHADOW_SIZE = 2048;

function compiled(gl) {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTICES], [gl.FRAGMENT_SHADER, PIXELS]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  return { program, at: new Proxy({}, { get: (_, name) => gl.getUniformLocation(program, name) }) };
}

// Where the sun sees something first.
function shadowMap(gl, size) {
  const texture = gl.createTexture(), frame = gl.createFramebuffer();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, size, size);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
  gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, texture, 0);
  return { texture, frame };
}

async function makeView(host, film) {
  const canvas = document.createElement("canvas"), gl = canvas.getContext("webgl2", { antialias: true });
  if (!gl) throw new Error("This browser has no WebGL 2, which a scene in space is drawn with.");
  host.append(canvas);
  const { program, at } = compiled(gl), shadow = shadowMap(gl, SHADOW_SIZE);
  const noShadow = shadowMap(gl, 1);  // to have bound while the other one is drawn
  const places = ["point", "normal"].map((name) => gl.getAttribLocation(program, name));
  const orbit = orbiting(canvas, film.camera.from, film.camera.lookat);
  const reach = Math.hypot(...minus(film.camera.from, film.camera.lookat));
  const toSun = unit([0.3, -0.4, 1]);
  const sunAt = plus(film.camera.lookat, times(toSun, 2 * reach));
  const sun = product(parallel(reach, 0.01, 4 * reach), viewFrom(sunAt, film.camera.lookat));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let episode = null, solids = [], trail = null;

  // Rows of numbers, `width` each, of which the first three are the place and the next, if any, the normal.
  function loaded(rows, width) {
    const array = gl.createVertexArray(), buffer = gl.createBuffer();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(rows.flat()), gl.STATIC_DRAW);
    places.slice(0, width / 3).forEach((place, i) => {
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 4 * width, 12 * i);
    });
    return { array, buffer, count: rows.length };
  }

  function freed({ array, buffer }) {
    gl.deleteVertexArray(array);
    gl.deleteBuffer(buffer);
  }

  function pose(poses, moment) {
    const i = Math.min(Math.floor(moment), poses.length - 1), j = Math.min(i + 1, poses.length - 1);
    return i === j ? poses[i] : between(poses[i], poses[j], Math.min(moment - i, 1));
  }

  function drawSolids(chosen, moment, theme) {
    for (const { mesh, kind, color, index } of chosen) {
      gl.uniformMatrix4fv(at.place, false, placement(pose(episode.poses[index], moment)));
      gl.uniform4fv(at.color, kind === "plane" ? FLOORS[theme] : color);
      gl.uniform1i(at.floor_of_squares, kind === "plane");
      gl.bindVertexArray(mesh.array);
      gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
    }
  }

  function drawShadows(moment) {
    gl.bindFramebuffer(gl.FRAMEBUFFER, shadow.frame);
    gl.bindTexture(gl.TEXTURE_2D, noShadow.texture);
    gl.viewport(0, 0, SHADOW_SIZE, SHADOW_SIZE);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(at.eye, false, sun);
    gl.uniform1i(at.plain, true);
    drawSolids(solids.filter(({ kind, color }) => kind !== "plane" && color[3] === 1), moment, "light");
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.bindTexture(gl.TEXTURE_2D, shadow.texture);
    gl.uniform1i(at.plain, false);
  }

  function drawTrail(moment, theme) {
    gl.uniform1i(at.plain, true);
    gl.uniform4fv(at.color, TRAILS[theme]);
    gl.uniformMatrix4fv(at.place, false, placement([0, 0, 0, 1, 0, 0, 0]));
    gl.bindVertexArray(trail.array);
    gl.drawArrays(gl.LINE_STRIP, 0, Math.min(trail.count, Math.floor(moment) + 1));
    gl.uniform1i(at.plain, false);
  }

  gl.enable(gl.DEPTH_TEST);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.uniformMatrix4fv(at.sun, false, sun);
  gl.uniform3fv(at.toSun, toSun);
  gl.uniform1f(at.reach, reach);

  return {
    start(index) {
      [...solids.map(({ mesh }) => mesh), ...(trail ? [trail] : [])].forEach(freed);
      episode = film.episodes[index];
      solids = film.geoms
        .map((geom, i) => ({ ...geom, index: i, size: episode.sizes[i] }))
        .filter(({ kind, size }) => kind === "plane" || size.some(Boolean))
        .map((geom) => ({ ...geom, mesh: loaded(SHAPES[geom.kind](geom.size), 6) }));
      trail = film.trail === null ? null : loaded(episode.poses[film.trail].map((row) => row.slice(0, 3)), 3);
    },
    draw(moment) {
      const ratio = window.devicePixelRatio || 1, theme = dark.matches ? "dark" : "light";
      const [width, height] = [Math.round(host.clientWidth * ratio), Math.round(host.clientHeight * ratio)];
      if (!width || !height) return;
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      drawShadows(moment);
      gl.viewport(0, 0, width, height);
      gl.clearColor(...SKIES[theme], 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniform3fv(at.sky, SKIES[theme]);
      gl.uniform3fv(at.camera, orbit.eye());
      const lens = perspective(film.camera.fovy, width / height, 0.02 * reach, 100 * reach);
      gl.uniformMatrix4fv(at.eye, false, product(lens, viewFrom(orbit.eye(), orbit.at())));
      drawSolids(solids.filter(({ color }) => color[3] === 1), moment, theme);
      if (trail) drawTrail(moment, theme);
      gl.enable(gl.BLEND);
      drawSolids(solids.filter(({ color }) => color[3] < 1), moment, theme);
      gl.disable(gl.BLEND);
    },
  };
}
