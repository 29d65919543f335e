"use strict";
// Draws one recorded step. Every k and every number read out was computed by the policies in
// Python; nothing here decides. Texts reach the page through textContent only.
(() => {
  const source = document.getElementById("recorded-steps");
  if (!source) return;
  const groups = JSON.parse(source.textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const ROLES = ["evict", "oracle", "full"];
  const byId = (id) => document.getElementById(id);
  const modelOf = (group) => `${group.model}, engine ${group.engine}`;
  const heat = (group) => `T=${group.temperature}`;
  const promptName = (prompt) => prompt.id + (prompt.turn ? `, turn ${prompt.turn + 1}` : "") +
    (prompt.repeat ? `, repeat ${prompt.repeat + 1}` : "");
  let group = groups[0];
  let place = 0;

  const element = (parent, name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const canvas = (id, height) => {
    const svg = byId(id);
    const width = Math.max(280, svg.parentElement.clientWidth);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    return [svg, width];
  };
  const fill = (select, labels, chosen) => {
    select.replaceChildren(...labels.map((label, i) => new Option(label, i)));
    select.selectedIndex = Math.max(0, chosen);
  };
  const unique = (values) => [...new Set(values)];
  const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;
  const round = (value) => String(Number(value.toPrecision(4)));

  // --- the tree: depth to the right, a row per leaf, children in score order ---
  const layout = (step) => {
    const depth = [0], row = [], children = step.tokens.map(() => []);
    step.parents.forEach((parent, node) => {
      if (node) { depth[node] = depth[parent] + 1; children[parent].push(node); }
    });
    let rows = 0;
    const visit = (node) => {
      children[node].forEach(visit);
      const below = children[node].map((child) => row[child]);
      row[node] = below.length ? (below[0] + below[below.length - 1]) / 2 : rows++;
    };
    visit(0);
    return { depth, row, rows, deepest: Math.max(...depth) };
  };
  const role = (step, node) => {
    const kept = step.path.includes(node) ? " kept" : "";
    return (node < step.at.evict.k ? "inside" : "outside") + kept;
  };
  const verdict = (step, node) => {
    const inside = node < step.at.evict.k;
    if (node === 0) return "last committed token";
    if (step.path.includes(node)) return inside ? "accepted" : "left out, would have been accepted";
    return inside ? "verified, rejected" : "left out";
  };
  const drawTree = (step) => {
    const { depth, row, rows, deepest } = layout(step);
    const [svg, width] = canvas("tree", rows * 20 + 40);
    const x = (node) => 16 + depth[node] * Math.min(130, (width - 46) / Math.max(1, deepest));
    const y = (node) => 34 + row[node] * 20;
    for (let level = 0; level <= deepest; level += 1) {
      const at = 16 + level * Math.min(130, (width - 46) / Math.max(1, deepest));
      const anchor = level ? "middle" : "start";
      const name = level ? `depth ${level}` : "root";
      element(svg, "text", { x: level ? at : 2, y: 12, class: "tick", "text-anchor": anchor }, name);
    }
    const byWeight = step.parents.map((_, node) => node).slice(1)
      .sort((a, b) => step.path.includes(a) - step.path.includes(b));
    for (const node of byWeight) {
      const [x0, y0, x1, y1] = [x(step.parents[node]), y(step.parents[node]), x(node), y(node)];
      const middle = (x0 + x1) / 2;
      const path = `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
      element(svg, "path", { d: path, class: `edge ${role(step, node)}` });
    }
    step.tokens.forEach((token, node) => {
      const radius = 2.5 + 4 * Math.sqrt(step.scores[node]);
      const spot = { cx: x(node), cy: y(node), r: radius, class: `node ${role(step, node)}` };
      const words = `rank ${node + 1}, token ${token}, score ${step.scores[node]}: `;
      element(element(svg, "circle", spot), "title", {}, words + verdict(step, node));
      element(svg, "text", { x: x(node) + radius + 2, y: y(node) - 3, class: "rank" }, node + 1);
    });
  };

  // --- three panels over k ---
  const panel = (svg, width, top, title, series, marks, level) => {
    const [left, height] = [34, 104], n = series[0].values.length;
    const most = 1.08 * Math.max(...series.flatMap((one) => one.values), level || 0);
    const x = (k) => left + ((k - 1) * (width - left - 10)) / Math.max(1, n - 1);
    const y = (value) => top + height - (value / most) * height;
    element(svg, "text", { x: left, y: top - 8, class: "panel" }, title);
    const unit = 10 ** Math.floor(Math.log10(most));
    const gap = [0.2, 0.5, 1, 2].map((part) => part * unit).find((part) => most / part <= 4.5) || unit;
    for (let value = 0; value <= most; value += gap) {
      element(svg, "line", { x1: left, x2: width - 10, y1: y(value), y2: y(value), class: "grid" });
      const spot = { x: left - 5, y: y(value) + 4, class: "tick", "text-anchor": "end" };
      element(svg, "text", spot, round(value));
    }
    if (level) {
      element(svg, "line", { x1: left, x2: width - 10, y1: y(level), y2: y(level), class: "level" });
    }
    for (const name of [...ROLES].reverse()) {
      const at = x(marks[name].k);
      element(svg, "line", { x1: at, x2: at, y1: top, y2: top + height, class: `mark ${name}` });
    }
    for (const one of series) {
      const points = one.values.map((value, i) => `${x(i + 1)},${y(value)}`).join(" ");
      element(svg, "polyline", { points, class: `curve ${one.kind}` });
      if (one.role) {
        const k = marks[one.role].k;
        const spot = { cx: x(k), cy: y(one.values[k - 1]), r: 4, class: `spot ${one.role}` };
        element(svg, "circle", spot);
      }
    }
    return [x, top + height, n];
  };
  const drawCurves = (step) => {
    const [svg, width] = canvas("curves", 486);
    const cost = group.cost_ms.slice(0, step.tokens.length);
    let sum = 0;
    const expected = step.scores.map((score) => (sum += score));
    const utility = (tokens) => tokens.map((value, i) => (group.ar_ms * value) / cost[i]);
    const [plain, step_, dashed] = [{ kind: "model" }, { kind: "model", role: "evict" }, "hindsight"];
    panel(svg, width, 26, "tokens: S_k expected, dashed committed",
      [{ ...plain, values: expected }, { kind: dashed, values: step.committed }], step.at);
    panel(svg, width, 176, "C(k) in ms, dotted: plain step C_AR",
      [{ ...plain, values: cost }], step.at, group.ar_ms);
    const [x, bottom, n] = panel(svg, width, 326,
      "U(k) = C_AR·S_k/C(k), dashed in hindsight",
      [{ ...step_, values: utility(expected) },
        { kind: dashed, role: "oracle", values: utility(step.committed) }], step.at, 1);
    const ticks = unique([1, ...[8, 16, 24, 32, 48, 64, 96, 128].filter((k) => k < n - 3 && k * 8 >= n), n]);
    for (const k of ticks) {
      element(svg, "text", { x: x(k), y: bottom + 16, class: "tick", "text-anchor": "middle" }, k);
    }
    const label = { x: (x(1) + x(n)) / 2, y: bottom + 34, class: "panel", "text-anchor": "middle" };
    element(svg, "text", label, "verify length k (nodes, root included)");
  };

  // --- words and numbers ---
  const readOut = (step) => {
    for (const name of ROLES) {
      const at = step.at[name];
      const values = [at.k, at.expected, group.cost_ms[at.k - 1], at.utility, at.accepted,
        at.committed, at.hindsight];
      const spots = byId(`row-${name}`).querySelectorAll("td");
      values.forEach((value, i) => { spots[i].textContent = round(value); });
    }
    const prompt = group.prompts[step.prompt], { evict, oracle } = step.at;
    byId("step-words").textContent =
      `${group.benchmark}, ${heat(group)}, step ${step.step} of ${promptName(prompt)}: EVICT verifies ` +
      `${evict.k} of ${step.tokens.length} nodes and ${counted(evict.accepted, "drafted token is", "drafted tokens are")} accepted; ` +
      `in hindsight ${oracle.k} was best.`;
    byId("step-place").textContent = `${place + 1} of ${group.steps.length}`;
    byId("step-origin").textContent =
      `${group.steps.length} of ${group.of} recorded steps are in this page, spread over ` +
      `${counted(group.prompts.length, "prompt", "prompts")}. Recorded while ${group.method} ran (its own k here: ` +
      `${step.live}).` + (group.cost_from ? ` C(k) comes from the run ${group.cost_from}.` : "");
    byId("step-text").textContent = prompt.text || "(no text recorded)";
  };
  const listNodes = (step) => {
    const { depth } = layout(step);
    byId("nodes").replaceChildren(...step.tokens.map((token, node) => {
      const line = document.createElement("tr");
      const parent = node ? step.parents[node] + 1 : "–";
      const values = [node + 1, depth[node], parent, token, step.scores[node], verdict(step, node)];
      values.forEach((value, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (!i) cell.scope = "row";
        cell.textContent = value;
        line.append(cell);
      });
      return line;
    }));
  };

  // --- choosing ---
  const draw = () => {
    const step = group.steps[place];
    byId("u-step").value = place;
    byId("u-step").setAttribute("aria-valuetext", `step ${place + 1} of ${group.steps.length}`);
    byId("u-prompt").selectedIndex = step.prompt;
    byId("u-previous").disabled = place === 0;
    byId("u-next").disabled = place === group.steps.length - 1;
    readOut(step);
    drawTree(step);
    drawCurves(step);
    listNodes(step);
  };
  const offer = () => {
    const models = unique(groups.map(modelOf));
    const here = groups.filter((one) => modelOf(one) === modelOf(group));
    const benchmarks = unique(here.map((one) => one.benchmark));
    const heats = here.filter((one) => one.benchmark === group.benchmark).map(heat);
    fill(byId("u-model"), models, models.indexOf(modelOf(group)));
    fill(byId("u-benchmark"), benchmarks, benchmarks.indexOf(group.benchmark));
    fill(byId("u-temperature"), heats, heats.indexOf(heat(group)));
    fill(byId("u-prompt"), group.prompts.map(promptName), 0);
    byId("u-step").max = group.steps.length - 1;
    place = Math.min(place, group.steps.length - 1);
    draw();
  };
  const text = (id) => byId(id).selectedOptions[0].textContent;
  const choose = () => {
    const fits = [(one) => modelOf(one) === text("u-model"),
      (one) => one.benchmark === text("u-benchmark"), (one) => heat(one) === text("u-temperature")];
    let left = groups;
    for (const fit of fits) left = left.some(fit) ? left.filter(fit) : left;
    group = left[0];
    place = 0;
    offer();
  };
  const move = (by) => {
    place = Math.min(group.steps.length - 1, Math.max(0, place + by));
    draw();
  };
  for (const id of ["u-model", "u-benchmark", "u-temperature"]) byId(id).addEventListener("change", choose);
  byId("u-prompt").addEventListener("change", (event) => {
    place = group.steps.findIndex((step) => step.prompt === event.target.selectedIndex);
    draw();
  });
  byId("u-step").addEventListener("input", (event) => { place = Number(event.target.value); draw(); });
  byId("u-previous").addEventListener("click", () => move(-1));
  byId("u-next").addEventListener("click", () => move(1));
  byId("stage").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { event.preventDefault(); move(by); }
  });
  byId("walk").hidden = false;
  offer();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; draw(); }
  });
})();
