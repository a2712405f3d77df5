const rgba = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const luminance = c => c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = e => { for (; e; e = e.parentElement) {
    const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255]; };
const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
const found = [];
for (const e of document.body.querySelectorAll('*')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || e.closest('title, .cells') || e.matches('.heat .light, .heat .dark') || !e.getClientRects().length)
        continue;
    const style = getComputedStyle(e);
    found.push([ratio(rgba(e.closest('svg') ? style.fill : style.color), behind(e)), e.textContent]);
}
const drawn = {bar: 'fill', 'series.base': 'stroke', 'series.model': 'stroke', mark: 'stroke', line: 'stroke'};
for (const [name, property] of Object.entries(drawn)) {
    const e = document.querySelector('svg .' + name);
    if (e) found.push([1.5 * ratio(rgba(getComputedStyle(e)[property]), behind(e)), name]);
}
return found;
