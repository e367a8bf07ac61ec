/** What Prometheus reads: its text format, version 0.0.4. */
export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

export type AnyFamily = Family<Counter> | Family<Histogram>;
/** Plain numbers: counting is done on the way of every call, reading it every few seconds. */
export interface Counter {
  value: number;
}

export interface Histogram {
  /** How many lay at or under each bound, and beyond the last; not yet added up. */
  readonly counts: number[];
  sum: number;
}

/** What several counts have in common. `of` finds the one for these labels, and makes it where there is none. */
export interface Family<Instrument> {
  readonly name: string;
  readonly help: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly bounds: readonly number[];
  of(first?: string, second?: string, third?: string): Instrument;
  each(tell: (labels: readonly string[], instrument: Instrument) => void): void;
}

/** Nobody can make a family longer than this: what comes beyond is counted under one name. */
export const mostChildren = 2000;
export const beyond = 'other';

interface Branch<Instrument> {
  readonly children: Map<string, Branch<Instrument>>;
  instrument: Instrument | undefined;
}

function createFamily<Instrument>(
  described: Pick<Family<Instrument>, 'name' | 'help' | 'kind' | 'labels' | 'bounds'>,
  make: () => Instrument,
): Family<Instrument> {
  const depth = described.labels.length;
  const root: Branch<Instrument> = { children: new Map(), instrument: undefined };
  let size = 0;

  function grown(labels: readonly string[]): Instrument {
    const kept = size < mostChildren ? labels : labels.map(() => beyond);
    let branch = root;
    for (const label of kept) {
      let next = branch.children.get(label);
      if (next === undefined) {
        next = { children: new Map(), instrument: undefined };
        branch.children.set(label, next);
      }
      branch = next;
    }
    if (branch.instrument === undefined) {
      branch.instrument = make();
      size++;
    }
    return branch.instrument;
  }

  function walk(branch: Branch<Instrument>, path: readonly string[], tell: Parameters<Family<Instrument>['each']>[0]) {
    if (branch.instrument !== undefined) tell(path, branch.instrument);
    for (const [label, child] of branch.children) walk(child, [...path, label], tell);
  }

  return {
    ...described,
    // Looked up step by step: one key made of all labels would be a new string with every call.
    of(first = '', second = '', third = '') {
      let branch: Branch<Instrument> | undefined = root;
      if (depth > 0) branch = branch.children.get(first);
      if (depth > 1) branch = branch?.children.get(second);
      if (depth > 2) branch = branch?.children.get(third);
      return branch?.instrument ?? grown([first, second, third].slice(0, depth));
    },
    each: (tell) => walk(root, [], tell),
  };
}

export function counters(name: string, help: string, ...labels: string[]): Family<Counter> {
  return createFamily({ name, help, kind: 'counter', labels, bounds: [] }, () => ({ value: 0 }));
}

export function gauges(name: string, help: string, ...labels: string[]): Family<Counter> {
  return createFamily({ name, help, kind: 'gauge', labels, bounds: [] }, () => ({ value: 0 }));
}

export function histograms(
  name: string,
  help: string,
  bounds: readonly number[],
  ...labels: string[]
): Family<Histogram> {
  return createFamily({ name, help, kind: 'histogram', labels, bounds }, () => ({
    counts: new Array<number>(bounds.length + 1).fill(0),
    sum: 0,
  }));
}

export function observe(family: Family<Histogram>, histogram: Histogram, value: number): void {
  const { bounds } = family;
  let at = 0;
  while (at < bounds.length && value > (bounds[at] as number)) at++;
  histogram.counts[at] = (histogram.counts[at] as number) + 1;
  histogram.sum += value;
}

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
