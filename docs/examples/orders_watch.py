# dags/orders_watch.py
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from airflow_stream_provider.operators.watch import ReviveStreamOperator, WatchStreamsOperator

with DAG("orders__own_watch", schedule=timedelta(minutes=5), catchup=False, max_active_runs=2):
    look = WatchStreamsOperator(
        task_id="look",
        streams=Path(__file__).parent / "own_streams",
        revive_dag_id="orders__own_revive",
        max_active_tis_per_dag=1,
    )
    TriggerDagRunOperator.partial(task_id="revive", skip_when_already_exists=True).expand_kwargs(look.output)

with DAG("orders__own_revive", max_active_runs=100, is_paused_upon_creation=False):
    ReviveStreamOperator(
        task_id="revive",
        name="{{ dag_run.conf['stream'] }}",
        control="{{ dag_run.conf['control'] }}",
        watch="orders__own_watch",
    )
