// Runs before the first paint: applies the chosen theme, if any; otherwise the system's applies.
"use strict";
try {
  const chosen = localStorage.getItem("hr-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is not available in some private windows */ }
