"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  let theme = "auto";
  const apply = () => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = `theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    apply();
  });
  apply();

  const tip = document.getElementById("tip");
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest?.("[data-tip]");
    tip.style.visibility = mark ? "visible" : "hidden";
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const right = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, right)}px`;
    tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
  });

  for (const head of document.querySelectorAll("th button")) {
    head.addEventListener("click", () => {
      const cell = head.parentElement;
      const table = cell.closest("table");
      const column = [...cell.parentElement.children].indexOf(cell);
      const up = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
      const numeric = cell.classList.contains("n");
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, other) => {
        const [a, b] = [value(one), value(other)];
        const order = numeric ? Number(a) - Number(b) : a.localeCompare(b);
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    });
  }

  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") node.open = true;
    }
    target?.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
