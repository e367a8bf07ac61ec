import { View } from '../parts/card.tsx';

export function WorkspaceList() {
  return <View title="WorkspaceList">Placeholder</View>;
}
