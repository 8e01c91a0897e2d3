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
    const key = (row) => row.cells[column].dataset.key;
    const rows = [...body.rows];
    // rows without a number stay last whichever way the others go
    rows.sort((a, b) => compare(key(a), key(b)) * (down && key(a) !== "" && key(b) !== "" ? -1 : 1));
    rows.forEach((row, place) => {
      const group = column <= 2 && (place === 0 || key(rows[place - 1]) !== key(row));
      row.classList.toggle("first", group);
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
    const svg = link.closest("figure").querySelector("svg");
    // a file of its own follows no page: the colours of the light theme, written out
    offer(link, link.dataset.name, "image/svg+xml",
      () => new XMLSerializer().serializeToString(svg).replace(/var\(--[a-z0-9-]+, (#[0-9a-f]{6})\)/g, "$1"));
    link.hidden = false;
  });
})();
