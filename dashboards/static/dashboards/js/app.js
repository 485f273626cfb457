// Loaded on every page.
import "./toast.js";
import "./dialogs.js";
import "./times.js";
import "./until.js";
import "./fields.js";
import "./tables.js";
import "./shell.js";
import "./palette.js";
import "./live.js";
