// Fields that help while one types: a name proposed from a label, tags as chips, and the bar of unsaved changes.
import { $, $$ } from "./dom.js";

// ---- a label with data-names="id of the name": the name follows until somebody edits it
const slug = (text) => text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase()
  .replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 63).replace(/-+$/, "");

document.addEventListener("input", (event) => {
  const { target } = event;
  if (target.dataset.names) {
    const name = document.getElementById(target.dataset.names);
    if (!name.dataset.edited) name.value = slug(target.value);
  } else if (target.name === "name") {
    target.dataset.edited = target.value ? "yes" : "";
  }
});

// ---- an input with data-tags: what it holds is shown as chips; the input itself stays what the form sends
function chips(input) {
  if (input.dataset.tags === "on") return;
  input.dataset.tags = "on";
  const box = document.createElement("span"), typed = document.createElement("input");
  box.className = "tag-input";
  Object.assign(typed, { type: "text", autocomplete: "off", id: input.id, placeholder: input.placeholder || "Add a tag", disabled: input.matches(":disabled") });
  for (const name of ["aria-describedby", "aria-invalid"]) if (input.hasAttribute(name)) typed.setAttribute(name, input.getAttribute(name));
  input.removeAttribute("id");
  input.type = "hidden";
  input.before(box);
  const held = () => input.value.split(/[\s,;]+/).filter(Boolean);
  const write = (tags) => {
    input.value = [...new Set(tags)].join(" ");
    draw();
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  function draw() {
    const drawn = held().map((tag) => {
      const chip = document.createElement("span"), off = document.createElement("button");
      chip.className = "tag";
      chip.textContent = tag;
      Object.assign(off, { type: "button", textContent: "×" });
      off.setAttribute("aria-label", `Remove ${tag}`);
      off.addEventListener("click", () => { write(held().filter((each) => each !== tag)); typed.focus(); });
      if (!typed.disabled) chip.append(off);
      return chip;
    });
    box.replaceChildren(...drawn, typed);
  }
  const take = () => { if (typed.value.trim()) { const more = typed.value.toLowerCase(); typed.value = ""; write([...held(), ...more.split(/[\s,;]+/).filter(Boolean)]); } };
  typed.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === "," || event.key === " ") && typed.value.trim()) { event.preventDefault(); take(); typed.focus(); }
    if (event.key === "Backspace" && !typed.value) { write(held().slice(0, -1)); typed.focus(); }
  });
  typed.addEventListener("blur", take);
  input.form?.addEventListener("submit", take, true);
  draw();
}

// ---- a form with data-saves: its bar appears with the first edit and says what changed
const named = (field) => document.querySelector(`label[for="${CSS.escape(field.id)}"]`)?.textContent.trim() || field.name;

// A select has no defaultValue.
function before(field) {
  if (!field.options) return field.defaultValue;
  return ([...field.options].find((each) => each.defaultSelected) ?? field.options[0])?.value;
}

function changes(form) {
  const found = [];
  for (const field of form.elements) {
    if (!field.name || field.closest("[data-savebar]") || field.name === "csrfmiddlewaretoken" || field.name === "force") continue;
    if (field.type === "radio") {
      if (field.checked && !field.defaultChecked) {
        const was = [...form.elements].find((each) => each.name === field.name && each.defaultChecked);
        found.push(`${field.dataset.said || field.name} ${was ? `${was.value} → ` : ""}${field.value}`);
      }
    } else if (field.value !== (field.dataset.was ?? before(field))) {
      found.push(field.type === "hidden" ? field.name : named(field).toLowerCase());
    }
  }
  return found;
}

function watch(form) {
  const bar = $("[data-savebar]", form);
  if (!bar || form.dataset.saves === "on") return;
  form.dataset.saves = "on";
  for (const field of $$("input[type=hidden]", form)) field.dataset.was = field.defaultValue;
  const keepsOpen = Boolean($(".error, .note-denied, [data-keeps-open]", form));
  const show = () => {
    const found = changes(form);
    bar.hidden = !found.length && !keepsOpen;
    const words = `${found.length} unsaved change${found.length === 1 ? "" : "s"}`;
    $("[data-changes]", bar).textContent = found.length ? `${words}: ${found.join(", ")}` : "";
  };
  form.addEventListener("input", show);
  form.addEventListener("change", show);
  show();
}

// Of a swap with outerHTML, only this event names what came.
document.addEventListener("htmx:load", (event) => fresh(event.detail.elt));
document.addEventListener("hr:fresh", (event) => fresh(event.target));
function fresh(part) {
  if (!part.querySelectorAll) return;
  part.querySelectorAll("input[data-tags]").forEach(chips);
  part.querySelectorAll("form[data-saves]").forEach(watch);
}
fresh(document);
// Tabs that do not fit scroll; the one that is open must be seen.
$$(".tabs [aria-current]").forEach((tab) => tab.scrollIntoView({ inline: "nearest", block: "nearest" }));
