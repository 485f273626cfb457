// Before the first paint: the theme that was chosen here, or else the system's.
"use strict";
try {
  const chosen = localStorage.getItem("hr-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is refused in private windows */ }
