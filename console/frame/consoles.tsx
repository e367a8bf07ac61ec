import { useSignal } from '@preact/signals';
import { request } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { Badge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Answer, ErrorNotice } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Table } from '../parts/table.tsx';
import { Ago, Id, Text, Until } from '../parts/text.tsx';
import { nameSignIn } from '../sign-in/signed-in.ts';

/** All signed-in consoles, each with a button that signs it out. */
export function Consoles({ onClose }: { readonly onClose: () => void }) {
  const consoles = useRequest('GET /api/v1/consoles');
  const error = useSignal<Error | undefined>(undefined);
  const revoke = async (id: string) => {
    try {
      await request('DELETE /api/v1/consoles/{id}', { id });
      await consoles.reload();
    } catch (failure) {
      error.value = failure as Error;
    }
  };
  return (
    <Dialog title="Signed-in consoles" onClose={onClose} isWide>
      <div class="dialog-body">
        {error.value !== undefined && <ErrorNotice error={error.value} />}
        <Answer of={consoles}>
          {({ consoles: rows }) => (
            <Table
              caption="Signed-in consoles"
              isStacked
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                {
                  label: 'Console',
                  isTitle: true,
                  cell: ({ id, isCurrent }) => (
                    <>
                      {<Id value={id} />} {isCurrent && <Badge tone="info">this one</Badge>}
                    </>
                  ),
                },
                { label: 'Role', cell: ({ role }) => role },
                { label: 'Signed in', cell: ({ by }) => <Text value={nameSignIn(by)} /> },
                { label: 'Address', from: 'tablet', cell: ({ address }) => address ?? 'unknown' },
                { label: 'Last used', from: 'tablet', cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} /> },
                { label: 'Ends', cell: ({ expiresAt }) => <Until at={expiresAt} /> },
                {
                  label: 'Action',
                  cell: ({ id }) => (
                    <Button kind="danger" onClick={() => void revoke(id)} label={`Revoke console ${id.slice(0, 8)}`}>
                      Revoke
                    </Button>
                  ),
                },
              ]}
            />
          )}
        </Answer>
        <SameData command="ambit console list" path="/api/v1/consoles" />
      </div>
    </Dialog>
  );
}
