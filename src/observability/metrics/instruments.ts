/** A plain number: it is incremented on every call and read every few seconds. */
interface Counter {
  value: number;
}

interface Histogram {
  /** Counts per bucket, not cumulative; the last one is beyond all bounds. */
  readonly counts: number[];
  sum: number;
}

/** A metric with its labels. `of` finds the instrument for these labels, or creates it. */
interface MetricFamily<Instrument> {
  readonly name: string;
  readonly help: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly bounds: readonly number[];
  of(first?: string, second?: string, third?: string): Instrument;
  each(tell: (labels: readonly string[], instrument: Instrument) => void): void;
}

/** Limit of label combinations of a family; further ones are counted under one label. */
export const maxChildren = 2000;
export const overflowLabel = 'other';

interface Branch<Instrument> {
  readonly children: Map<string, Branch<Instrument>>;
  instrument: Instrument | undefined;
}

function createFamily<Instrument>(
  described: Pick<MetricFamily<Instrument>, 'name' | 'help' | 'kind' | 'labels' | 'bounds'>,
  make: () => Instrument,
): MetricFamily<Instrument> {
  const depth = described.labels.length;
  const root: Branch<Instrument> = { children: new Map(), instrument: undefined };
  let size = 0;

  function addChild(labels: readonly string[]): Instrument {
    const kept = size < maxChildren ? labels : labels.map(() => overflowLabel);
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

  function visitBranch(
    branch: Branch<Instrument>,
    path: readonly string[],
    tell: Parameters<MetricFamily<Instrument>['each']>[0],
  ) {
    if (branch.instrument !== undefined) tell(path, branch.instrument);
    for (const [label, child] of branch.children) visitBranch(child, [...path, label], tell);
  }

  return {
    ...described,
    // Looked up label by label: one combined key would be a new string with every call.
    of(first = '', second = '', third = '') {
      let branch: Branch<Instrument> | undefined = root;
      if (depth > 0) branch = branch.children.get(first);
      if (depth > 1) branch = branch?.children.get(second);
      if (depth > 2) branch = branch?.children.get(third);
      return branch?.instrument ?? addChild([first, second, third].slice(0, depth));
    },
    each: (tell) => visitBranch(root, [], tell),
  };
}

export function createCounters(name: string, help: string, ...labels: string[]): MetricFamily<Counter> {
  return createFamily({ name, help, kind: 'counter', labels, bounds: [] }, () => ({ value: 0 }));
}

export function createGauges(name: string, help: string, ...labels: string[]): MetricFamily<Counter> {
  return createFamily({ name, help, kind: 'gauge', labels, bounds: [] }, () => ({ value: 0 }));
}

export function createHistograms(
  name: string,
  help: string,
  bounds: readonly number[],
  ...labels: string[]
): MetricFamily<Histogram> {
  return createFamily({ name, help, kind: 'histogram', labels, bounds }, () => ({
    counts: new Array<number>(bounds.length + 1).fill(0),
    sum: 0,
  }));
}

export function observeValue(family: MetricFamily<Histogram>, histogram: Histogram, value: number): void {
  const { bounds } = family;
  let at = 0;
  while (at < bounds.length && value > (bounds[at] as number)) at++;
  histogram.counts[at] = (histogram.counts[at] as number) + 1;
  histogram.sum += value;
}

/** The media type of Prometheus' text format, version 0.0.4. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8';

export type AnyMetricFamily = MetricFamily<Counter> | MetricFamily<Histogram>;

export function formatMetrics(families: readonly AnyMetricFamily[]): string {
  return families.map(formatFamily).join('');
}

function formatFamily(family: AnyMetricFamily): string {
  const help = family.help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');
  let text = `# HELP ${family.name} ${help}\n# TYPE ${family.name} ${family.kind}\n`;
  if (isHistogram(family)) {
    family.each((values, histogram) => {
      text += formatHistogram(family, values, histogram);
    });
  } else {
    family.each((values, { value }) => {
      text += `${family.name}${formatLabels(family.labels, values)} ${value}\n`;
    });
  }
  return text;
}

function isHistogram(family: AnyMetricFamily): family is MetricFamily<Histogram> {
  return family.kind === 'histogram';
}

function formatHistogram(
  family: MetricFamily<Histogram>,
  values: readonly string[],
  { counts, sum }: Histogram,
): string {
  const { name, labels, bounds } = family;
  let text = '';
  let sofar = 0;
  for (const [index, count] of counts.entries()) {
    sofar += count;
    const bound = bounds[index];
    const le = bound === undefined ? '+Inf' : String(bound);
    text += `${name}_bucket${formatLabels([...labels, 'le'], [...values, le])} ${sofar}\n`;
  }
  const named = formatLabels(labels, values);
  return `${text}${name}_sum${named} ${sum}\n${name}_count${named} ${sofar}\n`;
}

function formatLabels(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return '';
  return `{${names.map((name, index) => `${name}="${escapeLabelValue(values[index] ?? '')}"`).join(',')}}`;
}

function escapeLabelValue(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
}
