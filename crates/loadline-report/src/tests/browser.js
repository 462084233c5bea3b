// Checks pages in frames: axe finds nothing, nothing is wider than the frame, and the text of a plot
// does not overlap, leave its plot or differ in size.
const problems = [];

function overlap(a, b) {
  const room = 0.5;
  return a.x + room < b.x + b.width && b.x + room < a.x + a.width
    && a.y + room < b.y + b.height && b.y + room < a.y + a.height;
}

function plots(page, frame) {
  const sizes = new Set();
  for (const svg of frame.contentDocument.querySelectorAll("svg")) {
    const view = svg.viewBox.baseVal;
    const texts = [...svg.querySelectorAll("text")];
    const boxes = texts.map((text) => text.getBBox());
    for (const [i, box] of boxes.entries()) {
      const size = parseFloat(frame.contentWindow.getComputedStyle(texts[i]).fontSize);
      sizes.add((size * svg.getBoundingClientRect().width / view.width).toFixed(1));
      if (box.x < 0 || box.x + box.width > view.width || box.y + box.height > view.height) {
        problems.push([page, "outside", texts[i].textContent]);
      }
      for (let j = 0; j < i; j += 1) {
        if (overlap(box, boxes[j])) {
          problems.push([page, "overlap", texts[j].textContent, texts[i].textContent]);
        }
      }
    }
  }
  if (sizes.size > 1) {
    problems.push([page, "sizes", ...sizes]);
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
  const root = frame.contentDocument.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    problems.push([name, "overflow", root.scrollWidth]);
  }
  plots(name, frame);
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
