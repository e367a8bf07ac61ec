export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const line = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/;

/** Parses Prometheus text strictly; throws if it is invalid. */
export function parseSamples(text: string): Sample[] {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const typed = new Set<string>();
  return text
    .slice(0, -1)
    .split('\n')
    .flatMap((each) => {
      const type = /^# (?:HELP|TYPE) (\S+) \S/.exec(each);
      if (type !== null) {
        typed.add(type[1] as string);
        return [];
      }
      const [, name = '', inside = '', value = ''] = line.exec(each) ?? [];
      if (name === '' || Number.isNaN(Number(value))) throw new Error(`no sample: ${each}`);
      if (![name, name.replace(/_(?:bucket|sum|count)$/, '')].some((known) => typed.has(known)))
        throw new Error(`without a type: ${each}`);
      const pairs = [...inside.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g)];
      const labels = Object.fromEntries(
        pairs.map(([, key, text]) => [
          key as string,
          (text as string).replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped)),
        ]),
      );
      return [{ name, labels, value: Number(value) }];
    });
}

export function findSample(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const wanted = Object.entries(labels);
  return parseSamples(text).find(
    (sample) => sample.name === name && wanted.every(([key, value]) => sample.labels[key] === value),
  )?.value;
}
