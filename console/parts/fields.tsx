import type { Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { makeVisible } from './text.tsx';
import './fields.css';

const maxOffered = 24;
const maxListed = 500;

interface FieldProps {
  readonly label: string;
  readonly value: Signal<string>;
  readonly hint?: ComponentChildren;
}

interface TextFieldProps extends FieldProps {
  readonly type?: 'text' | 'password' | 'number' | 'date' | 'url';
  readonly isRequired?: boolean;
  readonly isFixed?: boolean;
  readonly placeholder?: string;
  /** Known values. The browser offers them while one types; others can be typed too. */
  readonly known?: readonly string[];
  readonly maxLength?: number;
  readonly min?: string;
}

/** A line of text with its label. */
export function TextField(props: TextFieldProps) {
  const { label, value, hint, type = 'text', isRequired, isFixed, placeholder, known, maxLength, min } = props;
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        // The types of Preact allow no choice between kinds of input here.
        type={type as 'text'}
        value={value.value}
        required={isRequired}
        readOnly={isFixed}
        placeholder={placeholder}
        {...(maxLength === undefined ? {} : { maxLength })}
        {...(min === undefined ? {} : { min })}
        list={known === undefined ? undefined : `${id}-known`}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        autocomplete={type === 'password' ? 'new-password' : 'off'}
        autocapitalize="off"
        spellcheck={false}
        onInput={({ currentTarget }) => {
          value.value = currentTarget.value;
        }}
      />
      {known !== undefined && <KnownValues id={`${id}-known`} values={known} />}
      <Hint id={id}>{hint}</Hint>
    </div>
  );
}

/** The values that a field offers. A name with characters that deceive the reader is not offered. */
export function KnownValues({ id, values }: { readonly id: string; readonly values: readonly string[] }) {
  return (
    <datalist id={id}>
      {values
        .filter((value) => value !== '' && makeVisible(value) === value)
        .slice(0, maxListed)
        .map((value) => (
          <option key={value} value={value} />
        ))}
    </datalist>
  );
}

/** Several lines of text. */
export function LinesField({ label, value, hint, maxLength }: FieldProps & { readonly maxLength?: number }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        required
        rows={6}
        {...(maxLength === undefined ? {} : { maxLength })}
        value={value.value}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onInput={({ currentTarget }) => {
          value.value = currentTarget.value;
        }}
      />
      <Hint id={id}>{hint}</Hint>
    </div>
  );
}

/** One of a few values. */
export function ChoiceField({
  label,
  value,
  hint,
  options,
  isFixed,
}: FieldProps & {
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly isFixed?: boolean;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value.value}
        disabled={isFixed}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={({ currentTarget }) => {
          value.value = currentTarget.value;
        }}
      >
        {options.map(([each, text]) => (
          <option key={each} value={each} selected={each === value.value}>
            {text}
          </option>
        ))}
      </select>
      <Hint id={id}>{hint}</Hint>
    </div>
  );
}

/** A yes or no. */
export function CheckField({
  label,
  value,
  hint,
}: {
  readonly label: string;
  readonly value: Signal<boolean>;
  readonly hint?: string;
}) {
  return (
    <label class="choice">
      <input
        type="checkbox"
        checked={value.value}
        onChange={({ currentTarget }) => {
          value.value = currentTarget.checked;
        }}
      />
      <span>
        {label} {hint !== undefined && <span class="field-hint">{hint}</span>}
      </span>
    </label>
  );
}

/** A list of names. Known names can be chosen with a button, others are typed. */
export function NamesField({ label, value, hint, known }: FieldProps & { readonly known: readonly string[] }) {
  const chosen = parseNames(value.value);
  const offered = known.filter((name) => /^[^\s,]+$/.test(name) && makeVisible(name) === name).slice(0, maxOffered);
  return (
    <div class="field">
      <TextField label={label} value={value} hint={hint} />
      {offered.length > 0 && (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset would announce its legend at each button
        <div class="field-names" role="group" aria-label={`Known: ${label}`}>
          {offered.map((name) => {
            const isChosen = chosen.includes(name);
            return (
              <button
                key={name}
                type="button"
                class="field-name"
                aria-pressed={isChosen}
                onClick={() => {
                  value.value = (isChosen ? chosen.filter((each) => each !== name) : [...chosen, name]).join(', ');
                }}
              >
                {name}
              </button>
            );
          })}
        </div>
      )}
    </div>
  );
}

/** Reads a list of names that are separated by commas or blanks, each once. */
export function parseNames(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((name) => name !== ''))];
}

function Hint({ id, children }: { readonly id: string; readonly children: ComponentChildren }) {
  if (children === undefined) return null;
  return (
    <p class="field-hint" id={`${id}-hint`}>
      {children}
    </p>
  );
}
