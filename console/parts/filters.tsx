import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { readQuery, setQuery } from '../frame/route.ts';
import { KnownValues } from './fields.tsx';
import './filters.css';

/** The filters of a view. They are always visible, and each one is a member of the address. */
export function Filters({ children }: { readonly children: ComponentChildren }) {
  return <search class="filters">{children}</search>;
}

interface FilterProps {
  /** The member of the query. */
  readonly name: string;
  readonly label: string;
}

const typingMs = 200;

export function TextFilter({
  name,
  label,
  placeholder,
  known,
}: FilterProps & {
  readonly placeholder?: string;
  /** Known values. The browser offers them while one types. */
  readonly known?: readonly string[];
}) {
  const id = useId();
  const value = readQuery(name);
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // The address may change by a link or "back" while nobody types here.
  useEffect(() => {
    if (field.current !== null && document.activeElement !== field.current) field.current.value = value;
  }, [value]);
  // Another view may have opened meanwhile: its address is not that of this filter.
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        ref={field}
        type="search"
        defaultValue={value}
        placeholder={placeholder}
        list={known === undefined ? undefined : id}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => {
          clearTimeout(timer.current);
          timer.current = setTimeout(() => setQuery({ [name]: currentTarget.value }), typingMs);
        }}
      />
      {known !== undefined && <KnownValues id={id} values={known} />}
    </label>
  );
}

/** A choice. The first option is the one without a filter. */
export function ChoiceFilter({
  name,
  label,
  options,
}: FilterProps & { readonly options: readonly (readonly [value: string, label: string])[] }) {
  return (
    <label class="filter filter-choice">
      <span>{label}</span>
      <select value={readQuery(name)} onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value })}>
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === readQuery(name)}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
