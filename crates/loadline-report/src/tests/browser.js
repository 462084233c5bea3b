// Checks pages in frames: axe finds nothing, nothing is wider than the frame, no row of a table is too tall, and the
// text of a plot does not overlap, cover a curve, leave its plot or differ in size.
const problems = [];

// The height of a table's row, in CSS pixels, above which a narrow cell has wrapped too often.
const TALLEST = 200;

function overlap(a, b, room) {
  return a.x + room < b.x + b.width && b.x + room < a.x + a.width
    && a.y + room < b.y + b.height && b.y + room < a.y + a.height;
}

// Whether a curve runs through a box, both in the units of their plot; the outermost 2 units of the box are free of letters.
function runsThrough(curve, box) {
  const length = curve.getTotalLength();
  const steps = Math.ceil(length / 2);
  for (let step = 0; step <= steps; step += 1) {
    const { x, y } = curve.getPointAtLength((length * step) / Math.max(steps, 1));
    if (x > box.x + 1 && x < box.x + box.width - 1 && y > box.y + 2 && y < box.y + box.height - 2) {
      return true;
    }
  }
  return false;
}

function covered(page, svg, texts) {
  const curves = [...svg.querySelectorAll("polyline, path, circle, line:not(.grid)")];
  for (const text of texts) {
    const box = text.getBBox();
    const curve = curves.find((one) => runsThrough(one, box));
    if (curve) {
      problems.push([page, "covers", text.textContent, curve.outerHTML]);
    }
  }
}

function plots(page, frame) {
  const sizes = new Set();
  for (const svg of frame.contentDocument.querySelectorAll("svg:not(svg svg)")) {
    const plot = svg.getBoundingClientRect();
    const scale = plot.width / svg.viewBox.baseVal.width;
    const room = 0.5 * scale;
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent !== "");
    const boxes = texts.map((text) => text.getBoundingClientRect());
    covered(page, svg, texts);
    for (const [i, box] of boxes.entries()) {
      const size = parseFloat(frame.contentWindow.getComputedStyle(texts[i]).fontSize);
      // A flame graph has a size of its own: it is not scaled, and scrolls where it is too wide.
      if (!svg.classList.contains("flame")) {
        sizes.add((size * scale).toFixed(1));
      }
      if (box.left + room < plot.left || box.right > plot.right + room
        || box.top + room < plot.top || box.bottom > plot.bottom + room) {
        problems.push([page, "outside", texts[i].textContent]);
      }
      for (let j = 0; j < i; j += 1) {
        if (overlap(box, boxes[j], room)) {
          problems.push([page, "overlap", texts[j].textContent, texts[i].textContent]);
        }
      }
    }
  }
  if (sizes.size > 1) {
    problems.push([page, "sizes", ...sizes]);
  }
}

function rows(page, frame) {
  for (const row of frame.contentDocument.querySelectorAll("table:has(thead) tbody tr")) {
    const { height } = row.getBoundingClientRect();
    if (height > TALLEST) {
      problems.push([page, "tall", Math.round(height), row.textContent.slice(0, 80)]);
    }
  }
}

async function check({ name, width, html }) {
  const frame = document.createElement("iframe");
  frame.style.width = `${width}px`;
  frame.style.height = "1500px";
  frame.srcdoc = html;
  const loaded = new Promise((resolve) => { frame.onload = resolve; });
  document.body.append(frame);
  await loaded;
  // What is folded is looked at too.
  for (const folded of frame.contentDocument.querySelectorAll("details")) {
    folded.open = true;
  }
  const root = frame.contentDocument.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    problems.push([name, "overflow", root.scrollWidth]);
  }
  plots(name, frame);
  rows(name, frame);
  const script = frame.contentDocument.createElement("script");
  script.textContent = axeSource;
  root.append(script);
  const found = await frame.contentWindow.axe.run(root);
  for (const { id, nodes } of found.violations) {
    problems.push([name, id, nodes[0].html]);
  }
  frame.remove();
}

function show(id, text) {
  const out = document.createElement("pre");
  out.id = id;
  out.textContent = text;
  document.body.append(out);
}

(async () => {
  try {
    for (const page of pages) {
      await check(page);
    }
    show("checked", pages.length);
  } catch (error) {
    problems.push(["the check itself", String(error)]);
  }
  show("problems", encodeURIComponent(JSON.stringify(problems)));
})();
