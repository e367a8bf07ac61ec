import { useSignal } from '@preact/signals';
import { plainBase } from '../api/request.ts';
import { Button } from './button.tsx';
import { quoteWord } from './quote-word.ts';
import { makeVisible } from './text.tsx';
import './same-data.css';

/** Copies a text and says so for a moment. */
export function CopyButton({
  text,
  label = 'Copy',
  what,
}: {
  readonly text: string;
  readonly label?: string;
  /** Names the text for screen readers. Without it, they read the beginning of the text. */
  readonly what?: string;
}) {
  const isCopied = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      isCopied.value = true;
      setTimeout(() => {
        isCopied.value = false;
      }, 2000);
    } catch {
      // Without permission, the text can still be selected.
    }
  };
  return (
    <Button
      kind="quiet"
      onClick={() => void copy()}
      label={isCopied.value ? 'Copied' : what === undefined ? `${label}: ${text.slice(0, 80)}` : `${label} ${what}`}
    >
      {isCopied.value ? 'Copied' : label}
    </Button>
  );
}

/** A command and a request that return the same. */
interface Source {
  readonly command?: string | undefined;
  readonly path: string;
  /** The body, if the request is a POST. */
  readonly body?: string | undefined;
}

interface SameDataProps extends Source {
  /** Names the data, where a view has several of these. */
  readonly what?: string;
  /** Commands and requests for the other parts of the view. */
  readonly more?: readonly Source[];
  /** What the commands cannot do. */
  readonly note?: string | undefined;
}

/** Shows the command and the request that return what the view shows. */
export function SameData({ what = 'this data', more = [], note, ...source }: SameDataProps) {
  const lines = [source, ...more].flatMap(writeLines);
  return (
    <details class="same-data">
      <summary>Get {what} on the command line</summary>
      {note !== undefined && <p class="muted">{note}</p>}
      {lines.map((line) => (
        <div class="same-data-line" key={line}>
          <code>{makeVisible(line)}</code>
          <CopyButton text={line} />
        </div>
      ))}
    </details>
  );
}

function writeLines({ command, path, body }: Source): string[] {
  const url = new URL(path.replace(/^\//, ''), plainBase).href.replaceAll("'", '%27');
  const post = body === undefined ? '' : ` -H 'Content-Type: application/json' -d ${quoteWord(body)}`;
  const request = `curl -H "Authorization: Bearer $AMBIT_ADMIN_TOKEN"${post} '${url}'`;
  return [...(command === undefined ? [] : [command]), request];
}
