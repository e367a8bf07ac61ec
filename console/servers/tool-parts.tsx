import { Diff } from '../parts/diff.tsx';
import { makeVisible, Text } from '../parts/text.tsx';

interface ToolPart {
  readonly part: string;
  readonly diff: string;
  readonly note: string | null;
}

/** The names of the members that people read most. Others are shown by their name in the protocol. */
const titles: Readonly<Record<string, string>> = {
  description: 'Description',
  inputSchema: 'Input schema',
  outputSchema: 'Output schema',
  annotations: 'Annotations',
  title: 'Title',
};

/** Shows what an approval would change in a tool, line by line. */
export function ToolParts({ tool, parts }: { readonly tool: string; readonly parts: readonly ToolPart[] }) {
  return (
    <>
      {parts.map(({ part, diff, note }, at) => {
        const title = Object.hasOwn(titles, part) ? titles[part] : undefined;
        return (
          <div key={`${part} ${at}`} class="server-part">
            <strong>{title ?? <Text value={part} max={80} />}</strong>
            {note !== null && <p class="muted">{note}</p>}
            {diff !== '' && (
              <Diff
                patch={diff}
                isOneText
                label={makeVisible(`${title ?? part} of ${tool}, change ${at + 1}`.slice(0, 200))}
              />
            )}
          </div>
        );
      })}
    </>
  );
}
