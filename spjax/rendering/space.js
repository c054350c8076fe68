// A MuJoCo scene with three.js. MuJoCo's z is up, its capsules and cylinders lie along z, its sizes are half-lengths.

async function makeView(host, film) {
  let THREE, OrbitControls;
  try {
    THREE = await import("three");
    ({ OrbitControls } = await import("three/addons/controls/OrbitControls.js"));
  } catch {
    throw new Error("three.js, which draws this page, could not be loaded: it needs the internet.");
  }
  const ENDLESS = 200;  // m, for planes of size 0
  const SKY = "#e6edf3";
  const shapes = {
    plane: ([x, y]) => new THREE.PlaneGeometry(2 * x || ENDLESS, 2 * y || ENDLESS),
    sphere: ([r]) => new THREE.SphereGeometry(r, 32, 16),
    capsule: ([r, h]) => new THREE.CapsuleGeometry(r, 2 * h, 8, 32).rotateX(Math.PI / 2),
    cylinder: ([r, h]) => new THREE.CylinderGeometry(r, r, 2 * h, 40).rotateX(Math.PI / 2),
    box: ([x, y, z]) => new THREE.BoxGeometry(2 * x, 2 * y, 2 * z),
    ellipsoid: ([x, y, z]) => new THREE.SphereGeometry(1, 32, 16).scale(x, y, z),
  };
  const scene = new THREE.Scene();
  scene.background = new THREE.Color(SKY);
  const renderer = new THREE.WebGLRenderer({ antialias: true });
  renderer.setPixelRatio(window.devicePixelRatio);
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFSoftShadowMap;
  host.append(renderer.domElement);
  const camera = new THREE.PerspectiveCamera(film.camera.fovy, 1, 0.02, 300);
  camera.up.set(0, 0, 1);
  camera.position.set(...film.camera.from);
  const lookat = new THREE.Vector3(...film.camera.lookat);
  const controls = new OrbitControls(camera, renderer.domElement);
  controls.target.copy(lookat);
  const reach = camera.position.distanceTo(lookat);
  scene.fog = new THREE.Fog(SKY, 2 * reach, 12 * reach);
  light();
  const solids = new THREE.Group();
  scene.add(solids);
  let episode = null, trail = null;

  function light() {
    scene.add(new THREE.HemisphereLight("white", "#b0b6bc", 1.8));
    const sun = new THREE.DirectionalLight("white", 1.8);
    sun.position.copy(lookat).add(new THREE.Vector3(0.3 * reach, -0.4 * reach, reach));
    sun.target.position.copy(lookat);
    sun.castShadow = true;
    sun.shadow.mapSize.set(2048, 2048);
    Object.assign(sun.shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, near: 0.01, far: 4 * reach });
    scene.add(sun, sun.target);
  }

  // A floor of squares of half a metre.
  function squares([x, y]) {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    canvas.width = canvas.height = 2;
    ["#f3f5f7", "#e0e4e8", "#e0e4e8", "#f3f5f7"].forEach((color, i) => {
      pen.fillStyle = color;
      pen.fillRect(i % 2, i >> 1, 1, 1);
    });
    const texture = new THREE.CanvasTexture(canvas);
    texture.colorSpace = THREE.SRGBColorSpace;
    texture.magFilter = THREE.NearestFilter;
    texture.anisotropy = 8;
    texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
    texture.repeat.set(2 * x || ENDLESS, 2 * y || ENDLESS);
    return texture;
  }

  function solid({ name, kind, color }, size) {
    const [r, g, b, a] = color, isPlane = kind === "plane";
    const material = new THREE.MeshStandardMaterial({
      color: isPlane ? "white" : new THREE.Color().setRGB(r, g, b, THREE.SRGBColorSpace),
      map: isPlane ? squares(size) : null,
      roughness: 0.6,
      transparent: a < 1,
      opacity: a,
    });
    const mesh = new THREE.Mesh(shapes[kind](size), material);
    Object.assign(mesh, { name, castShadow: !isPlane && a === 1, receiveShadow: true });
    return mesh;
  }

  // Puts a mesh where its geom is; poses are [x, y, z, qw, qx, qy, qz].
  function place(mesh, poses, moment) {
    const i = Math.min(Math.floor(moment), poses.length - 1), one = poses[i], two = poses[Math.min(i + 1, poses.length - 1)];
    const part = Math.min(moment - i, 1), turn = (p) => new THREE.Quaternion(p[4], p[5], p[6], p[3]);
    mesh.position.set(...one.slice(0, 3)).lerp(new THREE.Vector3(...two.slice(0, 3)), part);
    mesh.quaternion.copy(turn(one)).slerp(turn(two), part);
  }

  function resize() {
    const { clientWidth: width, clientHeight: height } = host;
    renderer.setSize(width, height, false);
    camera.aspect = width / Math.max(height, 1);
    camera.updateProjectionMatrix();
  }
  new ResizeObserver(resize).observe(host);
  resize();

  return {
    start(index) {
      episode = film.episodes[index];
      solids.clear();
      episode.sizes.forEach((size, i) => {
        const mesh = solid(film.geoms[i], size);
        mesh.visible = size.some(Boolean) || film.geoms[i].kind === "plane";
        solids.add(mesh);
      });
      trail = null;
      if (film.trail !== null) {
        const points = episode.poses[film.trail].map((pose) => new THREE.Vector3(...pose.slice(0, 3)));
        trail = new THREE.Line(new THREE.BufferGeometry().setFromPoints(points), new THREE.LineBasicMaterial({ color: "#4d4d4d" }));
        solids.add(trail);
      }
    },
    draw(moment) {
      episode.poses.forEach((poses, i) => place(solids.children[i], poses, moment));
      if (trail) trail.geometry.setDrawRange(0, Math.floor(moment) + 1);
      controls.update();
      renderer.render(scene, camera);
    },
  };
}
