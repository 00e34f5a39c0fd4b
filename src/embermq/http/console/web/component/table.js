// @ts-check
/** A table: headings that sort, cells by column, rows that can be selected. */

import { html } from "../vendor/preact-htm.js";

/**
 * @typedef {{
 *   label: string, cell: (item: any, session: any) => any, sort?: string, isNumber?: boolean, isExtra?: boolean
 * }} Column  `isExtra`: shown only where it is chosen
 */

/** @param {{column: Column, sort: string, isReverse: boolean, onSort: (sort: string, isReverse: boolean) => void}} properties */
function Heading({ column, sort, isReverse, onSort }) {
  const { label, isNumber } = column;
  const kind = isNumber ? "number" : "";
  if (!column.sort) return html`<th scope="col" class=${kind}>${label}</th>`;
  const isSorted = column.sort === sort;
  const order = isSorted ? (isReverse ? "descending" : "ascending") : undefined;
  const next = isSorted ? !isReverse : Boolean(isNumber);
  return html`<th scope="col" class=${kind} aria-sort=${order}>
    <button type="button" class="heading" onClick=${() => onSort(/** @type {string} */ (column.sort), next)}>
      ${label}<span aria-hidden="true">${isSorted ? (isReverse ? " ▾" : " ▴") : ""}</span>
    </button>
  </th>`;
}

/**
 * @param {{
 *   label: string, items: any[], columns: Column[], session: any, keyOf: (item: any) => string,
 *   sort?: string, isReverse?: boolean, onSort?: (sort: string, isReverse: boolean) => void,
 *   selected?: Set<string>, onSelect?: (selected: Set<string>) => void, maySelect?: (item: any) => boolean, nothing: any,
 * }} properties
 */
export function Table({ label, items, columns, session, keyOf, sort = "", isReverse = false, onSort, selected, onSelect, maySelect = () => true, nothing }) {
  if (items.length === 0) return html`<p class="nothing">${nothing}</p>`;
  const keys = items.map(keyOf);
  const selectable = items.filter(maySelect).map(keyOf);
  const hasAll = selected && selectable.length > 0 && selectable.every((key) => selected.has(key));
  const toggle = (/** @type {string} */ key) => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect?.(next);
  };
  const toggleAll = () => {
    const next = new Set(selected);
    for (const key of selectable) hasAll ? next.delete(key) : next.add(key);
    onSelect?.(next);
  };
  return html`<div class="table" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead>
        <tr>
          ${selected &&
          html`<th scope="col" class="select">
            <input type="checkbox" aria-label="Select all on this page" checked=${hasAll} onChange=${toggleAll} />
          </th>`}
          ${columns.map((column) =>
            onSort
              ? html`<${Heading} column=${column} sort=${sort} isReverse=${isReverse} onSort=${onSort} />`
              : html`<th scope="col" class=${column.isNumber ? "number" : ""}>${column.label}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${items.map(
          (item, at) => html`<tr key=${keys[at]}>
            ${selected &&
            html`<td class="select">
              ${maySelect(item) &&
              html`<input type="checkbox" aria-label=${`Select ${keys[at]}`} checked=${selected.has(keys[at])} onChange=${() => toggle(keys[at])} />`}
            </td>`}
            ${columns.map(
              (column, place) =>
                html`<td class=${(column.isNumber ? "number" : "") + (place === 0 ? " name" : "")} data-label=${column.label}>${column.cell(item, session)}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
