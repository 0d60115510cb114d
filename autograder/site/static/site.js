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
}

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  kept.set("theme", root.dataset.theme);
}

function toggleMenu() {
  const open = document.body.classList.toggle("menu-open");
  document.getElementById("menu").setAttribute("aria-expanded", String(open));
  showWhereYouAre();
}

function showWhereYouAre() {
  document.querySelector("#pages [aria-current]")?.scrollIntoView({ block: "nearest" });
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
      sections = window.SEARCH_INDEX.map(([address, page, pageZh, heading, headingZh, text, textZh]) => ({
        address, en: said(page, heading, text), zh: said(pageZh, headingZh, textZh),
      }));
      resolve();
    };
    document.head.append(script);
  });
  return loading;
}

const said = (page, heading, text) => ({ page, heading, text, name: heading.toLowerCase(), lower: `${page} ${text}`.toLowerCase() });
const count = (text, word) => Math.min(text.split(word).length - 1, 5);

// A match must contain every word of the query; a word in its heading counts as much as ten in its text. You may write
// a heading's words in either language. Untranslated prose counts least on Chinese pages, and not at all the reverse.
function score({ address, en, zh }, wanted) {
  let sum = 0;
  for (const word of wanted) {
    const named = [en.name, zh.name].some((name) => name.includes(word));
    const whole = [en.name, zh.name].includes(word);
    const points = inChinese() ? count(zh.lower, word) + count(en.lower, word) / 100 : count(en.lower, word);
    if (!named && points === 0) return 0;
    sum += (named ? 10 : 0) + (whole ? 20 : 0) + points;
  }
  return sum + (address.startsWith("glossary") ? 5 : 0);
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

// A result is in the language of the page, and so is its excerpt.
function result(section, wanted) {
  const { page, heading, text } = inChinese() ? section.zh : section.en;
  const link = element("a", "hit", "");
  link.href = root.dataset.top + section.address;
  link.append(element("b", "", heading), element("small", "", page));
  const seen = `${section.en.name} ${heading} ${text}`.toLowerCase();
  const untranslated = inChinese() && !wanted.some((word) => seen.includes(word));
  link.append(untranslated ? element("span", "excerpt", say("english-text")) : excerpt(text, wanted));
  return link;
}

function excerpt(text, wanted) {
  const made = element("span", "excerpt", "");
  const first = Math.max(0, text.toLowerCase().indexOf(wanted[0]) - 60);
  const piece = (first ? "… " : "") + text.slice(first, first + 180);
  const either = new RegExp(`(${wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "i");
  for (const part of piece.split(either)) {
    made.append(wanted.includes(part.toLowerCase()) ? element("mark", "", part) : part);
  }
  return made;
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
  showWhereYouAre();
});
