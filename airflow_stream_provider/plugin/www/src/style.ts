/** The one style sheet. Its colours are those of Airflow's theme, so light, dark and a company's own all fit. */

const colour = (name: string) => `var(--chakra-colors-${name})`;

const TONES = { good: "green", warn: "orange", bad: "red", rest: "gray", unknown: "purple" };

const tones = Object.entries(TONES)
  .map(
    ([tone, hue]) => `
.sp-${tone} { color: ${colour(`${hue}-fg`)}; }
.sp-dot.sp-${tone}, .sp-mark.sp-${tone} { color: var(--sp-${tone}); }
.sp-on-${tone} { background: ${colour(`${hue}-subtle`)}; }
.sp-answer.sp-edge-${tone} { border-inline-start-color: var(--sp-${tone}); }`,
  )
  .join("");

export const STYLE = `
.sp, .sp-dialog, .sp-menu {
  --sp-line: ${colour("border")};
  --sp-mute: ${colour("fg-muted")};
  --sp-link: ${colour("blue-fg")};
  --sp-good: ${colour("green-600")};
  --sp-warn: ${colour("orange-500")};
  --sp-bad: ${colour("red-600")};
  --sp-drawn: ${colour("blue-600")};
  --sp-rest: ${colour("fg-muted")};
  --sp-unknown: ${colour("purple-fg")};
  color: ${colour("fg")};
  font-size: 14px;
  line-height: 1.45;
}
.dark .sp, .dark .sp-dialog, .dark .sp-menu {
  --sp-good: ${colour("green-400")};
  --sp-warn: ${colour("orange-400")};
  --sp-bad: ${colour("red-400")};
  --sp-drawn: ${colour("blue-400")};
}
.sp-page { height: 100%; overflow: auto; background: ${colour("bg-subtle")}; }
.sp-in { max-width: 1600px; min-width: 1000px; margin: 0 auto; padding: 20px 24px 40px; }
.sp-tab { padding: 16px 4px; max-width: 900px; }
.sp h1 { font-size: 24px; font-weight: 650; line-height: 1.2; overflow-wrap: anywhere; }
.sp h2 { font-size: 15px; font-weight: 650; }
.sp h2.sp-title { font-size: 18px; }
.sp a { color: var(--sp-link); text-decoration: underline; text-underline-offset: 2px; }
.sp-list a { text-decoration: none; }
.sp-list a:hover { text-decoration: underline; }
.sp :focus-visible, .sp-dialog textarea:focus-visible, .sp-dialog input:focus-visible, .sp-dialog select:focus-visible,
.sp-dialog .sp-link:focus-visible { outline: 2px solid ${colour("blue-focus-ring")}; outline-offset: 1px; }
.sp-mute { color: var(--sp-mute); }
.sp-small { color: var(--sp-mute); font-size: 12.5px; }
.sp-on-bad .sp-small, .sp-row-bad .sp-small { color: inherit; }
.sp-strong { font-weight: 650; }
.sp-num { font-variant-numeric: tabular-nums; white-space: nowrap; }
.sp-mono { font-family: ${"var(--chakra-fonts-mono, monospace)"}; font-size: 12.5px; overflow-wrap: anywhere; }
.sp-lines { white-space: pre-line; overflow-wrap: anywhere; }
.sp-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.sp-wait, .sp-chart-wait { padding: 40px 0; color: var(--sp-mute); text-align: center; }
.sp-stale { opacity: .55; filter: grayscale(.8); }
${tones}

.sp-dot { width: 10px; height: 10px; flex: none; fill: currentColor; display: inline-block; vertical-align: baseline; }
.sp-state { display: inline-flex; align-items: baseline; gap: 7px; }
.sp-chips { display: flex; flex-wrap: wrap; gap: 4px 6px; align-items: center; }
.sp-chip { display: inline-flex; align-items: center; gap: 5px; padding: 1px 8px; border-radius: 9px; font-size: 12.5px;
  color: ${colour("fg")}; max-width: 100%; overflow-wrap: anywhere; }
.sp-chip .sp-dot { width: 8px; height: 8px; }
.sp-notice { display: block; padding: 8px 12px; margin: 0 0 10px; border-radius: 6px; overflow-wrap: anywhere; }
.sp-notice .sp-dot { margin-inline-end: 4px; }
.sp-link { color: var(--sp-link); cursor: pointer; text-decoration: underline; text-underline-offset: 2px; }
.sp-link:disabled { color: var(--sp-mute); cursor: default; text-decoration: none; }
.sp-button { padding: 4px 12px; border: 1px solid var(--sp-line); border-radius: 6px; background: ${colour("bg")}; cursor: pointer; }
.sp-empty { padding: 56px 24px; text-align: center; background: ${colour("bg")}; border: 1px solid var(--sp-line); border-radius: 8px; }
.sp-empty p { margin-bottom: 8px; }

.sp-head { margin-bottom: 14px; }
.sp-lead { color: var(--sp-mute); margin-top: 2px; font-size: 15px; }
.sp-tools { display: flex; flex-wrap: wrap; gap: 10px; align-items: center; margin-bottom: 12px; }
.sp-tools input { width: 340px; padding: 5px 10px; border: 1px solid ${colour("border-emphasized")}; border-radius: 6px; background: ${colour("bg")}; }
.sp ::placeholder { color: var(--sp-mute); opacity: 1; }
.sp-filters { display: flex; flex-wrap: wrap; gap: 6px; }
.sp-filters button, .sp-switch button { display: inline-flex; align-items: center; gap: 6px; padding: 4px 11px; cursor: pointer;
  border: 1px solid var(--sp-line); border-radius: 15px; background: ${colour("bg")}; font-size: 13px; }
.sp-filters b { font-weight: 650; font-variant-numeric: tabular-nums; }
.sp-filters button:hover, .sp-switch button:hover, .sp-button:hover { background: ${colour("bg-muted")}; }
.sp [aria-pressed=true] { background: ${colour("blue-subtle")}; border-color: ${colour("blue-solid")}; color: ${colour("blue-fg")}; }
.sp-switches { display: flex; gap: 12px; flex-wrap: wrap; }
.sp-switch { display: inline-flex; }
.sp-switch button { border-radius: 0; margin-inline-start: -1px; padding: 3px 10px; font-size: 12.5px; }
.sp-switch button:first-child { border-radius: 6px 0 0 6px; margin: 0; }
.sp-switch button:last-child { border-radius: 0 6px 6px 0; }
.sp-switch [aria-pressed=true] { position: relative; }

.sp-table { width: 100%; border-collapse: collapse; }
.sp-table th, .sp-table td { text-align: start; vertical-align: top; padding: 8px 12px 8px 0; border-bottom: 1px solid var(--sp-line);
  font-weight: inherit; overflow-wrap: anywhere; }
.sp-table thead th { color: var(--sp-mute); font-size: 12.5px; font-weight: 600; padding-top: 4px; white-space: nowrap; }
.sp-table tbody tr:last-child > * { border-bottom: 0; }
.sp-table tbody th:not(.sp-mono) { font-weight: 600; }
.sp-list { table-layout: fixed; background: ${colour("bg")}; border-collapse: separate; border-spacing: 0; border: 1px solid var(--sp-line); border-radius: 8px; }
.sp-list th:first-child { padding-inline-start: 14px; }
.sp-list thead th { position: sticky; top: 0; background: ${colour("bg")}; z-index: 1; padding: 8px 12px 8px 0; }
.sp-list thead th:first-child { border-top-left-radius: 8px; }
.sp-list thead th:last-child { border-top-right-radius: 8px; }
.sp-list thead button { font: inherit; color: inherit; cursor: pointer; text-align: start; white-space: normal; }
.sp-list thead [aria-sort=ascending], .sp-list thead [aria-sort=descending] { color: ${colour("fg")}; }
.sp-arrow { font-size: 9px; margin-inline-start: 4px; }
.sp-list tbody tr:hover > * { background: ${colour("bg-muted")}; }
.sp-list tbody tr.sp-row-bad > th:first-child { box-shadow: inset 3px 0 0 var(--sp-bad); }
.sp-name { font-weight: 600; }
.sp-clamp { display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; overflow: hidden; margin-top: 2px; }
.sp-lag > span { display: inline-block; width: 84px; vertical-align: top; }
.sp-lag > span > span { display: block; }
.sp-spark { display: inline-block; margin-top: 1px; }
.sp-spark path { fill: none; stroke: var(--sp-drawn); stroke-width: 1.4; stroke-linejoin: round; }
.sp-spark circle { fill: var(--sp-drawn); }

.sp-crumbs { margin-bottom: 6px; color: var(--sp-mute); font-size: 13px; }
.sp-head-stream { display: flex; justify-content: space-between; align-items: flex-start; gap: 24px; }
.sp-says { font-size: 17px; margin-top: 4px; }
.sp-says .sp-dot { width: 12px; height: 12px; }
.sp-acts { display: flex; gap: 8px; flex-wrap: wrap; justify-content: flex-end; }
.sp-acts button { background: ${colour("bg")}; }
.sp-acts button:hover { background: ${colour("bg-muted")}; }
.sp-no-acts { max-width: 360px; text-align: end; }
.sp-facts { display: flex; flex-wrap: wrap; margin: 0 0 14px; background: ${colour("bg")}; border: 1px solid var(--sp-line); border-radius: 8px; }
.sp-facts > div { flex: 1 1 auto; padding: 10px 18px; border-inline-start: 1px solid var(--sp-line); min-width: 130px; }
.sp-facts > div:first-child { border: 0; }
.sp-facts dt { color: var(--sp-mute); font-size: 12.5px; }
.sp-facts dd > span { display: block; }
.sp-fact { font-size: 17px; font-weight: 600; font-variant-numeric: tabular-nums; }
.sp-fact .sp-mono { font-size: 14px; }
.sp-card { background: ${colour("bg")}; border: 1px solid var(--sp-line); border-radius: 8px; padding: 14px 18px; margin-bottom: 14px; }
.sp-two { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 0 14px; }
.sp-card-head { display: flex; justify-content: space-between; align-items: center; gap: 12px; margin-bottom: 8px; }
.sp-card .sp-table th:last-child, .sp-card .sp-table td:last-child { padding-inline-end: 0; }

.sp-answer { border-inline-start: 4px solid var(--sp-line); padding-inline-start: 14px; }
.sp-word { font-size: 17px; font-weight: 650; margin-bottom: 4px; }
.sp-answer-lines { margin: 0 0 6px; padding-inline-start: 18px; list-style: disc; max-width: 110ch; }
.sp-answer-lines li { margin-bottom: 2px; }
.sp-spin { display: inline-block; width: 12px; height: 12px; margin-inline-end: 8px; vertical-align: -1px; border-radius: 50%;
  border: 2px solid var(--sp-line); border-top-color: var(--sp-link); animation: sp-turn .9s linear infinite; }
@keyframes sp-turn { to { transform: rotate(1turn); } }
@media (prefers-reduced-motion: reduce) { .sp-spin { animation: none; } }

.sp-steps { list-style: none; padding: 0; }
.sp-steps li { display: grid; grid-template-columns: 20px 1fr auto; gap: 8px; padding: 3px 0; }
.sp-done { color: var(--sp-mute); }
.sp-step { color: var(--sp-good); font-weight: 700; }
.sp-events { list-style: none; padding: 0; max-height: 480px; overflow: auto; }
.sp-events li { display: grid; grid-template-columns: 140px 12px 1fr; gap: 10px; padding: 7px 0; align-items: baseline; }
.sp-events li + li { border-top: 1px solid var(--sp-line); }
.sp-at { font-variant-numeric: tabular-nums; text-align: end; }
.sp-reason { margin-top: 1px; }
.sp-story { max-height: none; }
.sp-story li { border: 0 !important; position: relative; padding: 9px 0; }
.sp-story li:not(:last-child)::before { content: ""; position: absolute; inset-inline-start: 154.5px; top: 26px; bottom: -8px; width: 1px; background: var(--sp-line); }
.sp-later { display: block; }
.sp-dags { color: var(--sp-mute); font-size: 13px; }
.sp-error { padding: 6px 10px; border-radius: 6px; margin-bottom: 6px; border: 1px solid var(--sp-line); }
.sp-query > * { border-bottom: 0 !important; padding-bottom: 2px !important; }
.sp-query-more > td { padding-top: 0; }
.sp-batch { fill: var(--sp-drawn); opacity: .75; }
.sp-batch:hover { opacity: 1; }
.sp-batch-long { fill: var(--sp-warn); opacity: 1; }
.sp-details summary { cursor: pointer; color: var(--sp-mute); font-size: 12.5px; width: fit-content; }
.sp-details[open] summary { margin-bottom: 6px; }
.sp-scroll { max-height: 320px; overflow: auto; }
.sp-pairs { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; font-size: 13px; }
.sp-pairs dt { color: var(--sp-mute); }
.sp-pair { display: contents; }

.sp-readout { font-size: 13px; font-variant-numeric: tabular-nums; min-height: 20px; margin-bottom: 6px; }
.sp-chart { cursor: crosshair; border-radius: 4px; }
.sp-chart svg { display: block; }
.sp-chart text { font-size: 11px; fill: var(--sp-mute); }
.sp-chart .sp-band { font-weight: 600; fill: revert-layer; }
.sp-panel-title { font-weight: 600; }
.sp-panel line, .sp-time line { stroke: var(--sp-line); }
.sp-time line { stroke-opacity: .6; }
.sp-line { fill: none; stroke: var(--sp-drawn); stroke-width: 1.5; stroke-linejoin: round; }
.sp-area { fill: var(--sp-drawn); opacity: .12; }
.sp-mark line { stroke: currentColor; stroke-dasharray: 3 3; opacity: .7; }
.sp-mark path { fill: currentColor; }
.sp-incident { fill: var(--sp-bad); }
.sp-incident-shade { fill: var(--sp-bad); opacity: .08; }
.sp-cursor line { stroke: ${colour("fg")}; }

.sp-compare { table-layout: fixed; }
.sp-compare th:first-child { width: 26%; }
.sp select, .sp-dialog select, .sp-dialog input, .sp-dialog textarea { padding: 5px 8px; border: 1px solid ${colour("border-emphasized")};
  border-radius: 6px; background: ${colour("bg")}; color: inherit; max-width: 100%; }
.sp option { background: ${colour("bg")}; }
.sp-differs > td { background: color-mix(in srgb, var(--sp-warn) 14%, transparent); padding-inline-start: 8px !important; }
.sp-not { color: ${colour("orange-fg")}; font-weight: 700; margin-inline-end: 6px; }
.sp-check { display: inline-flex; gap: 6px; align-items: center; font-size: 13px; cursor: pointer; }

.sp-dialog .sp-field { margin-bottom: 12px; }
.sp-dialog label { display: block; font-weight: 600; margin-bottom: 3px; }
.sp-dialog label span { font-weight: 400; }
.sp-dialog .sp-field input, .sp-dialog textarea, .sp-dialog .sp-field select { width: 100%; }
.sp-dialog [aria-invalid=true] { border-color: var(--sp-bad); }
.sp-about { margin-bottom: 14px; }
.sp-what { font-weight: 600; margin-bottom: 6px; }
.sp-grow { flex: 1; }
.sp-menu { max-width: 420px; }
.sp-menu-about { color: var(--sp-mute); font-size: 12.5px; white-space: normal; }
`;
