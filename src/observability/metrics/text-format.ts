import type { Counter, Family, Histogram } from './instruments.ts';

/** What Prometheus reads: its text format, version 0.0.4. */
export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

export type AnyFamily = Family<Counter> | Family<Histogram>;

export function textOf(families: readonly AnyFamily[]): string {
  return families.map(familyText).join('');
}

function familyText(family: AnyFamily): string {
  let text = `# HELP ${family.name} ${helpText(family.help)}\n# TYPE ${family.name} ${family.kind}\n`;
  if (isHistogram(family)) {
    family.each((values, histogram) => {
      text += histogramText(family, values, histogram);
    });
  } else {
    family.each((values, { value }) => {
      text += `${family.name}${labelText(family.labels, values)} ${value}\n`;
    });
  }
  return text;
}

function isHistogram(family: AnyFamily): family is Family<Histogram> {
  return family.kind === 'histogram';
}

function histogramText(family: Family<Histogram>, values: readonly string[], { counts, sum }: Histogram): string {
  const { name, labels, bounds } = family;
  let text = '';
  let sofar = 0;
  for (const [index, count] of counts.entries()) {
    sofar += count;
    const bound = bounds[index];
    const le = bound === undefined ? '+Inf' : String(bound);
    text += `${name}_bucket${labelText([...labels, 'le'], [...values, le])} ${sofar}\n`;
  }
  const named = labelText(labels, values);
  return `${text}${name}_sum${named} ${sum}\n${name}_count${named} ${sofar}\n`;
}

function labelText(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return '';
  return `{${names.map((name, index) => `${name}="${labelValue(values[index] ?? '')}"`).join(',')}}`;
}

function labelValue(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
}

function helpText(help: string): string {
  return help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');
}
