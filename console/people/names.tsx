import { Badge } from '../parts/badge.tsx';
import { makeVisible, Text } from '../parts/text.tsx';

interface NamesProps {
  readonly values: readonly string[];
  /** Stands for an empty list. */
  readonly none: string;
  /** The number of names that are shown. */
  readonly max?: number;
}

/** Shows a list of names, cut after a few. The title has all. */
export function Names({ values, none, max = 4 }: NamesProps) {
  if (values.length === 0) return <span class="muted nowrap">{none}</span>;
  const rest = values.length - max;
  return (
    <span class="people-names" title={makeVisible(values.join(', ').slice(0, 2000))}>
      {values.slice(0, max).map((value) => (
        <Badge key={value}>{makeVisible(value.slice(0, 40))}</Badge>
      ))}
      {rest > 0 && <span class="muted nowrap">+{rest}</span>}
    </span>
  );
}

/** Shows a name in a cell that is wide enough for most names. */
export function ShortName({ value }: { readonly value: string }) {
  return (
    <span class="people-short">
      <Text value={value} max={60} />
    </span>
  );
}
