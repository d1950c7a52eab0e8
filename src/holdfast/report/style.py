"""The style sheet of a report, for light and dark mode, small screens and paper.

1. The row has the only strong colour. The other colours are Okabe and Ito's, which colour-blind people can distinguish,
   and no colour is the only sign of something.
2. Text has a contrast of at least 4.5 in both modes.
3. Nothing is loaded: no font, no picture, no script.
"""

from __future__ import annotations

SHEET = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf7; --raised: #ffffff; --ink: #14202b; --muted: #566573; --line: #dcdfe0; --zebra: #f3f2ee;
  --row: #b4470a; --thread: #d55e00; --file: #c3d0db; --file-live: #8fa9be; --bar: #2f6690; --area: #d8e3ec;
  --green: #009e73; --sky: #56b4e9; --blue: #0072b2; --pink: #cc79a7; --yellow: #e69f00; --grey: #98a4ae;
  --comment: #5d6b63; --string: #8a4b08; --keyword: #0b5394;
  --serif: ui-serif, "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif;
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #10171e; --raised: #161f28; --ink: #e4eaef; --muted: #9cabb8; --line: #2c3843; --zebra: #141d25;
    --row: #ff9d57; --thread: #ff8a3c; --file: #33475a; --file-live: #56738e; --bar: #6ea8d6; --area: #24384a;
    --green: #2bbd93; --sky: #7cc6f2; --blue: #3f97d1; --pink: #dd9ac1; --yellow: #f0b440; --grey: #75828e;
    --comment: #93a69b; --string: #e8b36f; --keyword: #86bdf0;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 var(--sans); font-feature-settings: "tnum" 1;
}
main, header, footer { max-width: 1080px; margin: 0 auto; padding: 0 28px; }
header { padding-top: 72px; }
.mark { font-weight: 650; letter-spacing: .02em; color: var(--row); }
h1 {
  font: 500 clamp(2.3rem, 6vw, 4rem)/1.08 var(--serif); letter-spacing: -.015em; margin: .35em 0 .4em;
  text-wrap: balance;
}
h1 em { font-style: normal; color: var(--row); }
.lead { font-size: 1.15rem; max-width: 44em; color: var(--muted); margin: 0; }
h2 { font: 500 1.7rem/1.2 var(--serif); letter-spacing: -.01em; margin: 0 0 .25em; }
section { margin: 84px 0 0; }
section > p, figcaption p { max-width: 46em; margin: 0 0 20px; color: var(--muted); }
dl.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 28px;
  margin: 44px 0 0; padding: 24px 0; border: solid var(--line); border-width: 1px 0;
}
dl.facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
dl.facts dd { margin: 0; font: 500 2rem/1.15 var(--serif); white-space: nowrap; }
dl.facts dt { color: var(--muted); font-size: .875rem; line-height: 1.4; }
dl.facts .held dd { color: var(--row); }
figure { margin: 0; }
.scroll {
  overflow-x: auto; background:
    linear-gradient(90deg, var(--paper) 40%, transparent) left / 40px 100% no-repeat local,
    linear-gradient(270deg, var(--paper) 40%, transparent) right / 40px 100% no-repeat local,
    linear-gradient(90deg, var(--line), transparent) left / 14px 100% no-repeat scroll,
    linear-gradient(270deg, var(--line), transparent) right / 14px 100% no-repeat scroll;
}
.scroll:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--thread); outline-offset: 3px; }
svg { display: block; width: 100%; height: auto; overflow: visible; font-family: var(--sans); }
svg text { fill: var(--ink); font-size: 14px; }
svg .small { font-size: 13px; }
svg .tiny { font-size: 11.5px; }
svg .muted { fill: var(--muted); }
svg .strong { font-weight: 600; }
svg text.row { fill: var(--row); }
svg .zebra { fill: var(--zebra); }
svg .rule { stroke: var(--line); }
svg .file { fill: var(--file); }
svg .file.live { fill: var(--file-live); }
svg .identity { stroke: var(--thread); stroke-width: 5; stroke-linecap: round; }
svg .stem { stroke: var(--thread); stroke-width: 1; opacity: .55; }
svg .place { fill: none; stroke: var(--thread); stroke-width: 2.5; stroke-linecap: round; }
svg .halo { fill: none; stroke: var(--paper); stroke-width: 6; stroke-linecap: round; opacity: .7; }
svg .dot { fill: var(--paper); stroke: var(--thread); stroke-width: 2.5; }
svg .bar { fill: var(--bar); }
svg .bar.faint { fill: var(--grey); }
svg .area { fill: var(--area); stroke: var(--bar); stroke-width: 1.5; }
svg .change-insert { fill: var(--green); }
svg .change-update_preimage { fill: var(--sky); }
svg .change-update_postimage { fill: var(--blue); }
svg .change-delete { fill: var(--pink); }
svg .bytes-data { fill: var(--bar); }
svg .bytes-vectors { fill: var(--yellow); }
svg .bytes-log { fill: var(--grey); }
svg .bytes-index { fill: var(--pink); }
details { margin: 16px 0 0; }
summary { cursor: pointer; color: var(--muted); font-size: .9rem; width: fit-content; }
summary:hover { color: var(--ink); }
table { border-collapse: collapse; font-size: .9rem; margin: 10px 0 0; min-width: 50%; }
th, td {
  padding: 6px 22px 6px 0; text-align: left; font-weight: 400; white-space: nowrap;
  border-bottom: 1px solid var(--line);
}
thead th { color: var(--muted); font-size: .82rem; }
tbody th { font-weight: 500; }
td.number, th.number { text-align: right; }
th:last-child, td:last-child { padding-right: 0; }
section > p.after { margin: 32px 0 0; }
blockquote {
  margin: 14px 0 0; padding: 14px 20px; background: var(--raised); border: 1px solid var(--line); border-radius: 6px;
  font: .85rem/1.6 var(--mono); overflow-wrap: anywhere;
}
ol.life { list-style: none; margin: 8px 0 0; padding: 0 0 0 26px; border-left: 3px solid var(--thread); }
ol.life li { position: relative; padding: 0 0 20px; }
ol.life li:last-child { padding-bottom: 0; }
ol.life li::before {
  content: ""; position: absolute; left: -34px; top: .45em; width: 9px; height: 9px; border-radius: 50%;
  background: var(--paper); border: 2.5px solid var(--thread);
}
ol.life b { font-weight: 600; }
ol.life span { color: var(--muted); }
ol.steps { list-style: none; margin: 26px 0 0; padding: 0; counter-reset: step; }
ol.steps > li { border-top: 1px solid var(--line); padding: 16px 0 18px; counter-increment: step; }
ol.steps h3 { font-size: 1.02rem; font-weight: 600; margin: 0; }
ol.steps h3::before { content: counter(step) "\\2002"; color: var(--row); font-variant-numeric: tabular-nums; }
ol.steps p { margin: 2px 0 0; color: var(--muted); max-width: 52em; }
ol.steps ul { list-style: none; margin: 8px 0 0; padding: 0; font-size: .93rem; }
ol.steps ul li::before { content: "\\2713\\2002"; color: var(--green); font-weight: 700; }
pre {
  margin: 10px 0 0; padding: 16px 20px; overflow-x: auto; background: var(--raised); border: 1px solid var(--line);
  border-radius: 6px; font: .84rem/1.55 var(--mono); tab-size: 4;
}
code .c { color: var(--comment); } code .s { color: var(--string); } code .k { color: var(--keyword); }
footer { margin-top: 96px; padding-top: 22px; padding-bottom: 56px; color: var(--muted); font-size: .875rem; }
footer p { border-top: 1px solid var(--line); padding-top: 22px; margin: 0; }
@media (max-width: 640px) {
  main, header, footer { padding-left: 18px; padding-right: 18px; }
  header { padding-top: 40px; }
  section { margin-top: 60px; }
  dl.facts { grid-template-columns: 1fr 1fr; gap: 20px; }
  dl.facts dd { font-size: 1.6rem; }
}
@media print {
  :root {
    --paper: #ffffff; --raised: #ffffff; --ink: #000000; --muted: #4a555f; --line: #cccccc; --zebra: #f6f6f4;
    --row: #b4470a; --thread: #d55e00; --file: #c3d0db; --file-live: #8fa9be; --bar: #2f6690; --area: #d8e3ec;
    --green: #009e73; --sky: #56b4e9; --blue: #0072b2; --pink: #cc79a7; --yellow: #e69f00; --grey: #98a4ae;
    --comment: #5d6b63; --string: #8a4b08; --keyword: #0b5394;
  }
  body { font-size: 10.5pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  header { padding-top: 0; }
  section { margin-top: 36px; }
  figure, ol.life, ol.steps > li { break-inside: avoid; }
  h2, h3, figcaption { break-after: avoid; }
  .scroll, pre { overflow: visible; background: none; }
  svg { min-width: 0 !important; }
  pre { white-space: pre-wrap; }
  details:not([open]) { display: none; }
}
"""
