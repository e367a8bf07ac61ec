import { layerNames, layers, readLayerImports } from './layers.ts';

const [left, top, rowHeight, boxWidth, columnWidth, gap] = [16, 132, 36, 500, 22, 24];
const columnX = (column: number) => left + boxWidth + gap + column * columnWidth + columnWidth / 2;

/** The picture of the layers in ARCHITECTURE.md: a box for each layer, and a dot for each layer that it imports. */
export function drawLayers(): string {
  const imports = new Set(readLayerImports().map(({ from, to }) => `${from} ${to}`));
  const width = columnX(layers.length - 1) + left + 34;
  const height = top + layers.length * rowHeight + 10;
  const lines = [
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="${left}" y="34" font-size="18" font-weight="bold" fill="#0f172a">The layers of src/</text>`,
    `<text x="${left}" y="60" font-size="13" fill="#334155">A file imports only from its own layer and from layers above it.</text>`,
    `<text x="${left}" y="80" font-size="13" fill="#334155">A blue dot means: the layer of this row imports the layer of this column.</text>`,
    ...layerNames.slice(0, -1).map(drawColumnName),
    ...layers.flatMap((layer, row) => drawRow(layer, row, imports)),
  ];
  const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif">\n${lines.join('\n')}\n</svg>\n`;
}

function drawRow({ name, purpose }: (typeof layers)[number], row: number, imports: ReadonlySet<string>): string[] {
  const y = top + row * rowHeight;
  const dots = layerNames.slice(0, row).map((other, column) => {
    const [radius, colour] = imports.has(`${name} ${other}`) ? [5, '#1d4ed8'] : [1.5, '#cbd5e1'];
    return `<circle cx="${columnX(column)}" cy="${y + 15}" r="${radius}" fill="${colour}"/>`;
  });
  return [
    `<rect x="${left}" y="${y}" width="${boxWidth}" height="30" rx="5" fill="#eef2ff" stroke="#c7d2fe"/>`,
    `<text x="${left + 12}" y="${y + 20}" font-family="monospace" font-weight="bold" font-size="14">${name}</text>`,
    `<text x="${left + 140}" y="${y + 20}" font-size="13" fill="#334155">${purpose}</text>`,
    ...dots,
  ];
}

function drawColumnName(name: string, column: number): string {
  const [x, y] = [columnX(column) + 4, top - 8];
  const place = `x="${x}" y="${y}" transform="rotate(-60 ${x} ${y})"`;
  return `<text ${place} font-family="monospace" font-size="12" fill="#334155">${name}</text>`;
}
