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
      // rows without a number stay last whichever way the others go
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
      // a file of its own follows no page: the colours of the light theme and a font, written out
      return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(svg)
        .replace(/var\(--[a-z0-9-]+, (#[0-9a-f]{6})\)/g, "$1")
        .replace(/font-family: inherit/g, "font-family: sans-serif");
    });
    link.hidden = false;
  });

  // paper cannot be opened: what is folded away is printed, and folded again afterwards
  const folded = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => { opened = folded(); opened.forEach((one) => { one.open = true; }); });
  addEventListener("afterprint", () => { opened.forEach((one) => { one.open = false; }); opened = []; });
})();
