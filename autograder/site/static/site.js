// Language, light and dark, menu and search. Nothing is loaded except search-index.js, from the same site.
"use strict";

const root = document.documentElement;
const kept = {
  get(name) { try { return localStorage.getItem(name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { /* no storage, as for file: pages; kept until you leave the page */ } },
};

// Runs before the first paint, so that a page does not flash in the wrong language or theme.
root.lang = kept.get("language") ?? (navigator.language.startsWith("zh") ? "zh-CN" : "en");
if (kept.get("theme")) root.dataset.theme = kept.get("theme");

const inChinese = () => root.lang.startsWith("zh");
let words = {};
const say = (name) => words[`label-${name}`][inChinese() ? "zh" : "en"];

function label() {
  for (const one of document.querySelectorAll("[data-label]")) {
    one.setAttribute("aria-label", say(one.dataset.label));
    one.title = say(one.dataset.label);
    if (one.tagName === "INPUT") one.placeholder = say(one.dataset.label);
  }
  const title = document.querySelector(`h1 .${inChinese() ? "zh" : "en"}`);
  if (title) document.title = `${title.textContent} · SYS-602`;
}

function switchLanguage() {
  root.lang = inChinese() ? "en" : "zh-CN";
  kept.set("language", root.lang);
  label();
  if (!found().hidden) search();
}

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  kept.set("theme", root.dataset.theme);
}

function toggleMenu() {
  const open = document.body.classList.toggle("menu-open");
  document.getElementById("menu").setAttribute("aria-expanded", String(open));
}

// ---- search --------------------------------------------------------------------------------------------------------

const MOST = 20;
const query = () => document.getElementById("query");
const found = () => document.getElementById("found");
let loading = null;
let sections = [];

function load() {
  loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${root.dataset.top}search-index.js`;
    script.onload = () => {
      sections = window.SEARCH_INDEX.map(([address, page, pageZh, heading, headingZh, text]) => ({
        address, page, pageZh, heading, headingZh, text,
        names: `${heading} ${headingZh}`.toLowerCase(), lower: `${page} ${pageZh} ${text}`.toLowerCase(),
      }));
      resolve();
    };
    document.head.append(script);
  });
  return loading;
}

// A match must contain every word of the query; a word in its heading counts as much as ten in its text.
function score(section, wanted) {
  let sum = 0;
  for (const word of wanted) {
    const named = section.names.includes(word);
    const times = section.lower.split(word).length - 1;
    if (!named && times === 0) return 0;
    const whole = section.heading.toLowerCase() === word || section.headingZh === word;
    sum += (named ? 10 : 0) + (whole ? 20 : 0) + Math.min(times, 5);
  }
  return sum + (section.address.startsWith("glossary") ? 5 : 0);
}

async function search() {
  await load();
  const wanted = query().value.toLowerCase().split(/\s+/).filter(Boolean);
  found().hidden = wanted.length === 0;
  if (found().hidden) return;
  const hits = sections.map((one) => [score(one, wanted), one]).filter(([points]) => points > 0);
  hits.sort((one, other) => other[0] - one[0]);
  found().querySelector(".status").textContent = hits.length ? `${hits.length} ${say("found")}` : say("nothing");
  document.getElementById("hits").replaceChildren(...hits.slice(0, MOST).map(([, section]) => result(section, wanted)));
}

function result(section, wanted) {
  const link = element("a", "hit", "");
  link.href = root.dataset.top + section.address;
  link.append(element("b", "", inChinese() ? section.headingZh : section.heading));
  link.append(element("small", "", inChinese() ? section.pageZh : section.page));
  const text = element("span", "excerpt", "");
  const first = Math.max(0, section.text.toLowerCase().indexOf(wanted[0]) - 60);
  const excerpt = (first ? "… " : "") + section.text.slice(first, first + 180);
  const either = new RegExp(`(${wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "i");
  for (const piece of excerpt.split(either)) {
    text.append(wanted.includes(piece.toLowerCase()) ? element("mark", "", piece) : piece);
  }
  link.append(text);
  return link;
}

function element(tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

function close() {
  found().hidden = true;
}

// The arrow keys move from the search field through the results and back.
function walk(event) {
  const hits = [query(), ...found().querySelectorAll("a")];
  const place = hits.indexOf(document.activeElement);
  if (event.key === "Escape") { close(); query().blur(); }
  if (place < 0 || found().hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  event.preventDefault();
  hits[Math.max(0, Math.min(hits.length - 1, place + (event.key === "ArrowDown" ? 1 : -1)))].focus();
}

document.addEventListener("DOMContentLoaded", () => {
  words = JSON.parse(document.getElementById("words").textContent);
  label();
  document.getElementById("language").addEventListener("click", switchLanguage);
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.getElementById("menu").addEventListener("click", toggleMenu);
  query().addEventListener("focus", load);
  query().addEventListener("input", search);
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    found().querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); query().focus(); }
    walk(event);
  });
  document.addEventListener("click", (event) => { if (!event.target.closest("#search")) close(); });
  document.querySelector("#pages [aria-current]")?.scrollIntoView({ block: "nearest" });
});
