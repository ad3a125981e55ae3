# dags/orders_own_upgrade.py
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_stream_provider.operators.check import CheckReleaseOperator
from airflow_stream_provider.operators.stream import FenceOperator, HandOverOperator, RetireOperator, RollBackOperator
from airflow_stream_provider.operators.upgrade import JudgeRehearsalOperator, SoakOperator, SubmitStandbyOperator
from airflow_stream_provider.spec.stream import load_spec

orders = load_spec(Path(__file__).parent / "streams" / "orders.yaml")
version = "{{ params.version }}"
checked = "{{ ti.xcom_pull(task_ids='check')['release'] | tojson }}"
new = "{{ ti.xcom_pull(task_ids='submit', key='family') or '' }}"
approved = "{{ 'judged: pass' if (ti.xcom_pull(task_ids='judge') or {}).get('verdict') == 'pass' else '' }}"
old = "{{ (ti.xcom_pull(task_ids='hand_over') or {}).get('previous', '') }}"
fault = "{{ ti.xcom_pull(task_ids='soak', key='fault') or '' }}"
soaked = "{{ (ti.xcom_pull(task_ids='soak') or {}).get('result', '') }}"

with DAG(
    "orders__own_upgrade",
    schedule=None,
    max_active_runs=1,
    params={"version": orders.version},
    default_args={"retries": 3},
):
    check = CheckReleaseOperator(task_id="check", stream=orders, version=version, retries=0)
    submit = SubmitStandbyOperator(task_id="submit", stream=orders, checked=checked)
    judge = JudgeRehearsalOperator(task_id="judge", stream=orders, family=new)
    hand_over = HandOverOperator(task_id="hand_over", stream=orders, family=new, approved=approved)
    soak = SoakOperator(task_id="soak", stream=orders, family=new, seconds=300)
    retire = RetireOperator(task_id="retire", stream=orders, deployment=old)
    roll_back = RollBackOperator(task_id="roll_back", stream=orders, fault=fault, well=soaked)
    check >> submit >> judge >> hand_over >> soak >> [retire, roll_back]
    # Also when a person marks the run as failed: nothing is left that nobody needs.
    roll_back.as_teardown()

# For a person on call; see FenceOperator.
form = {"deployment": Param(None, type="string"), "confirmed_by": Param(None, type=["null", "string"])}
with DAG("orders__fence", schedule=None, params=form):
    fence = FenceOperator(
        task_id="fence",
        stream=orders,
        deployment="{{ params.deployment }}",
        confirmed_by="{{ params.confirmed_by or '' }}",  # without the `or`, of an empty field: the text "None"
    )
