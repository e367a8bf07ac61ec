import { useEffect } from 'preact/hooks';
import type { AnswerOf } from '../api/request.ts';
import { type Loaded, useRequest } from '../api/use-request.ts';
import { hrefOf, readQuery } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { View } from '../parts/card.tsx';
import { hideResult, showResult } from '../parts/result.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { makeVisible } from '../parts/text.tsx';
import { type DialogHost, useDialog } from '../parts/use-dialog.ts';
import { isAdmin } from '../sign-in/signed-in.ts';
import { AddObjective } from './objective-dialogs.tsx';
import { ObjectivesTab } from './objectives-tab.tsx';
import { PoliciesTab } from './policies-tab.tsx';
import { PolicyEditor } from './policy-editor.tsx';
import { PreviewTab } from './preview-tab.tsx';
import './policies.css';

/** A part of the view with everything that it shows and can do. */
export interface PolicyTabProps {
  readonly policies: Loaded<AnswerOf<'GET /api/v1/policies'>>;
  readonly objectives: Loaded<AnswerOf<'GET /api/v1/objectives'>>;
  readonly dialogs: DialogHost;
  /** Shows the result of an action and reads the lists again. */
  readonly onDone: (result: string) => void;
}

const tabs = [
  { name: 'policies', label: 'Policies', Content: PoliciesTab },
  { name: 'objectives', label: 'Objectives', Content: ObjectivesTab },
  { name: 'preview', label: 'Preview', Content: PreviewTab },
] as const;

const refresh = { everyMs: 15_000 };

/** The texts that the model is given: policies and objectives, and what a user gets of them. */
export function Policies() {
  const policies = useRequest('GET /api/v1/policies', {}, refresh);
  const objectives = useRequest('GET /api/v1/objectives', {}, refresh);
  const dialogs = useDialog();
  const shown = tabs.find(({ name }) => name === readQuery('tab')) ?? tabs[0];
  useEffect(() => {
    hideResult();
  }, [shown.name]);
  const onDone = (text: string) => {
    showResult(makeVisible(text));
    void policies.reload();
    void objectives.reload();
  };
  const props = { policies, objectives, dialogs, onDone };
  const counts: Readonly<Record<string, number | undefined>> = {
    policies: policies.answer.value?.policies.length,
    objectives: objectives.answer.value?.objectives.length,
  };
  const addPolicy = () => dialogs.open((close) => <PolicyEditor policies={policies} onDone={onDone} onClose={close} />);
  const addObjective = () => dialogs.open((close) => <AddObjective onDone={onDone} onClose={close} />);
  return (
    <View
      title="Policies"
      aside={!isAdmin.value && <Badge>Read only: your role is viewer</Badge>}
      actions={
        isAdmin.value &&
        shown.name !== 'preview' && (
          <Button kind="primary" onClick={shown.name === 'policies' ? addPolicy : addObjective}>
            {shown.name === 'policies' ? 'Add policy' : 'Add objective'}
          </Button>
        )
      }
    >
      <p class="policies-about muted">
        Policies and objectives are texts that Ambit gives to the model. They are advice: to enforce something, use{' '}
        <a href={hrefOf(['rules'])}>rules</a> and permissions.
      </p>
      <Tabs
        label="Policies"
        current={shown.name}
        tabs={tabs.map(({ name, label }) => {
          const count = counts[name];
          return { name, label, href: hrefOf(['policies'], { tab: name }), ...(count === undefined ? {} : { count }) };
        })}
      />
      <shown.Content {...props} />
      {dialogs.element}
    </View>
  );
}
