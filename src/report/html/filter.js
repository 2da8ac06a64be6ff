"use strict";
// Rows that lack one of the words are hidden. `#facts=WORDS` in the address fills the field, so a filter can be sent to others.
for (const field of document.querySelectorAll("input[data-filters]")) {
  const list = document.getElementById(field.dataset.filters);
  const count = field.closest(".filter").querySelector("output");
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const group of list.querySelectorAll("tbody")) {
      const head = group.querySelector("tr.head");
      const title = head ? head.textContent : "";
      let any = false;
      for (const row of group.rows) {
        if (row === head) continue;
        const text = `${title} ${row.textContent}`.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        any ||= !row.hidden;
        shown += !row.hidden;
      }
      group.hidden = !any;
    }
    count.value = words.length ? `${shown} shown` : "";
  };
  field.closest(".filter").hidden = false;
  field.addEventListener("input", apply);
  const words = new URLSearchParams(location.hash.slice(1)).get(field.dataset.filters);
  if (words) {
    list.open = true;
    field.value = words;
    apply();
  }
}
