"use strict";
(() => {
  const table = document.getElementById("results");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    if (a === "" || b === "") return (a === "") - (b === "");
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  };
  const sort = (column) => {
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row, place) => row.cells[place].dataset.key;
    const rows = [...body.rows];
    rows.sort((one, other) => {
      const [a, b] = [key(one, column), key(other, column)];
      // rows without a number stay last in both sort orders
      return compare(a, b) * (down && a !== "" && b !== "" ? -1 : 1);
    });
    rows.forEach((row, place) => {
      const like = (which) => place > 0 && key(rows[place - 1], which) === key(row, which);
      row.classList.toggle("first", column <= 2 && !like(column));
      row.classList.toggle("same", like(0));
      body.append(row);
    });
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...body.rows];
    rows.forEach((row) => { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); });
    shown.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
  };
  filter.addEventListener("input", show);

  // the pointer on a curve shows the nearest step of the curve
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.querySelectorAll(".drawing svg").forEach((svg) => {
    const points = [...svg.querySelectorAll(".curve")].flatMap((curve) => {
      const texts = curve.querySelector("title").textContent.split("\n");
      curve.querySelector("title").remove();
      const places = [...curve.querySelector("path").getAttribute("d").matchAll(/[ML] ([-\d.]+) ([-\d.]+)/g)];
      return places.map((place, number) => ({ x: Number(place[1]), y: Number(place[2]), text: texts[number] || "" }));
    });
    svg.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const far = (point) => (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
      const nearest = points.reduce((best, point) => (best && far(best) <= far(point) ? best : point), null);
      tip.hidden = !nearest || far(nearest) > 300;
      if (tip.hidden) return;
      tip.textContent = nearest.text;
      tip.style.left = `${event.pageX + 12}px`;
      tip.style.top = `${event.pageY + 12}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  });

  document.documentElement.classList.add("scripts");
  document.querySelectorAll(".scripted").forEach((element) => { element.hidden = false; });

  const offer = (link, name, kind, text) => {
    link.download = name;
    link.addEventListener("click", () => {
      if (link.dataset.made) URL.revokeObjectURL(link.dataset.made);
      link.href = link.dataset.made = URL.createObjectURL(new Blob([text()], { type: kind }));
    });
  };
  offer(document.getElementById("save-json"), "results.json", "application/json",
    () => document.getElementById("data").textContent);
  document.querySelectorAll(".save").forEach((link) => {
    const drawn = link.closest("figure").querySelector("svg");
    offer(link, link.dataset.name, "image/svg+xml", () => {
      const svg = drawn.cloneNode(true);
      svg.setAttribute("width", `${drawn.viewBox.baseVal.width}pt`);
      svg.setAttribute("height", `${drawn.viewBox.baseVal.height}pt`);
      return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(svg);
    });
    link.hidden = false;
  });

  // a printout cannot be unfolded: open folded parts for printing, and fold them again afterwards
  const folded = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => { opened = folded(); opened.forEach((one) => { one.open = true; }); });
  addEventListener("afterprint", () => { opened.forEach((one) => { one.open = false; }); opened = []; });
})();
