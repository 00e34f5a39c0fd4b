// @ts-check
/** Lists that the server gives in one piece, searched, sorted and cut into pages here. */

/** A value by its path: "message_stats.publish". @param {any} item @param {string} path */
export function valueAt(item, path) {
  return path.split(".").reduce((value, step) => value?.[step], item);
}

/** @param {any} one @param {any} other */
function compared(one, other) {
  if (one === other) return 0;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one ?? "") < String(other ?? "") ? -1 : 1;
}

/** @param {any[]} all @param {Record<string, string>} query @param {number} pageSize */
export function pageOfArray(all, query, pageSize) {
  const text = (query.name ?? "").toLowerCase();
  const found = text ? all.filter((item) => JSON.stringify(Object.values(item)).toLowerCase().includes(text)) : [...all];
  if (query.sort) {
    found.sort((one, other) => compared(valueAt(one, query.sort), valueAt(other, query.sort)));
    if (query.sort_reverse === "true") found.reverse();
  }
  const pageCount = Math.max(1, Math.ceil(found.length / pageSize));
  const page = Math.min(Math.max(1, Number(query.page) || 1), pageCount);
  return {
    items: found.slice((page - 1) * pageSize, page * pageSize),
    page,
    page_count: pageCount,
    filtered_count: found.length,
  };
}
