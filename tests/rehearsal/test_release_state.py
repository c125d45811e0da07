"""The state of a release, read from the emulated AWS."""

from deploy_rehearsal.deployed import DeployedStacks
from deploy_rehearsal.release_state import ReleaseState


def test_notifications_of_the_topic_arrive_once(aws):
    """The queue accepts the topic's messages, and each is returned once."""
    topic = aws.client("sns").create_topic(Name="alarms")["TopicArn"]
    deployed = DeployedStacks(resources=(), outputs={"AlarmTopicArn": topic})
    state = ReleaseState(aws=aws, deployed=deployed, environment="dev")
    state.subscribe()
    aws.client("sns").publish(TopicArn=topic, Message="the release did not succeed")
    assert state.notifications() == ["the release did not succeed"]
    assert state.notifications() == []
